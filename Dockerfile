# CompanyOS's server. `make container-check` carries these steps out without a Docker engine and plays an episode.
FROM python:3.11-slim-bookworm AS build
WORKDIR /build
RUN python -m venv --without-pip /opt/companyos \
    && pip install --no-cache-dir hatchling==1.33.0
COPY requirements.txt ./
RUN pip --python /opt/companyos/bin/python install --no-cache-dir --requirement requirements.txt
COPY LICENSE README.md pyproject.toml ./
COPY src ./src
# What is pinned above is all that there is; the project is added to it, and asks for nothing more.
RUN pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir wheels . \
    && pip --python /opt/companyos/bin/python install --no-cache-dir --no-deps wheels/*.whl

FROM python:3.11-slim-bookworm
COPY --from=build /opt/companyos /opt/companyos
# Only /tmp need be writable, so that is where sessions are kept. Give a file on a volume, or the URL of a PostgreSQL, to keep them longer.
ENV PATH=/opt/companyos/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    COMPANYOS_HOST=0.0.0.0 \
    COMPANYOS_LEDGER=/tmp/companyos.ledger \
    COMPANYOS_LOG_FORMAT=json
WORKDIR /tmp
USER 65532:65532
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; from companyos.serve.ops.settings import Settings; urllib.request.urlopen(f'http://127.0.0.1:{Settings.read(os.environ).port}/health', timeout=3)"]
CMD ["companyos", "serve"]
