"""CompanyOS for users of OpenEnv. The server speaks OpenEnv's protocol without importing this package.

Nothing of it is imported here: a client needs the models only, a host also needs the environment.
"""

from importlib.util import find_spec

if find_spec("openenv") is None:
    raise ModuleNotFoundError('OpenEnv\'s client and environment need openenv: pip install "companyos[openenv]"')
