"""OpenEnv: CompanyOS as its hosts know it. Only they import this: the server speaks the same without OpenEnv.

Nothing is imported here: a client needs the models only, a host of its own the environment.
"""
