"""CompanyOS for users of OpenEnv. The server speaks OpenEnv's protocol without importing this package.

Nothing of it is imported here: a client needs the models only, a host also needs the environment.
"""

from importlib.util import find_spec

from companyos.core.errors import install_hint

if find_spec("openenv") is None:
    raise ModuleNotFoundError(f"OpenEnv's client and environment need openenv: {install_hint('openenv')}")
