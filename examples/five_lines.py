import companyos

env = companyos.make("vendor_onboarding", seed=7, chaos=0.5)
obs = env.reset()
obs = env.step({"app": "ticketdesk", "method": "get_ticket", "params": {"ticket_id": "T-9262"}})
print(obs.text, obs.reward, obs.done)
