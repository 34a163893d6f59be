"""CompanyOS for users of OpenEnv. The server speaks OpenEnv's protocol without importing this package.

Nothing is imported here: a client needs the models only, a host also needs the environment.
"""
