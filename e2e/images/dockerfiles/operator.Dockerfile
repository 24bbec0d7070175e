# SPDX-License-Identifier: Apache-2.0
# Made by `python -m e2e.images dockerfiles` from e2e/images/catalogue.py: edit that.
# docker build --file e2e/images/dockerfiles/operator.Dockerfile --tag tandem.dev/operator:0.1.0 .

FROM python:3.11-slim-bookworm AS wheels
RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /source
COPY pyproject.toml pyproject.toml
COPY uv.lock uv.lock
COPY operator operator
COPY connector connector
RUN uv export --quiet --frozen --no-header --no-default-groups --package tandem-operator --no-emit-workspace --output-file /requirements.txt \
 && uv pip install --quiet --no-deps --require-hashes --only-binary :all: \
      --target /opt/tandem/lib/python3.11/site-packages --requirement /requirements.txt
RUN for member in tandem-connector tandem-operator; do uv build --quiet --wheel --package "$member" --out-dir /built; done \
 && uv pip install --quiet --no-deps --no-index --find-links /built \
      --target /opt/tandem/lib/python3.11/site-packages tandem-connector tandem-operator
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/tandem/lib/python3.11/site-packages

FROM debian:12-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3.11 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=wheels /opt/tandem/lib/python3.11/site-packages /opt/tandem/lib/python3.11/site-packages
COPY --chmod=644 <<"END" /opt/tandem/pyvenv.cfg
home = /usr/bin
include-system-site-packages = false
END
RUN mkdir -p /opt/tandem/bin && ln -s /usr/bin/python3.11 /opt/tandem/bin/python3
ENV PATH="/opt/tandem/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENV PYTHONUNBUFFERED="1"
LABEL org.opencontainers.image.title="operator"
LABEL org.opencontainers.image.description="Tandem's Kubernetes operator"
LABEL org.opencontainers.image.version="0.1.0"
USER 65532:65532
ENTRYPOINT ["python3", "-m", "tandem_operator", "run"]
