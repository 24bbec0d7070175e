# SPDX-License-Identifier: Apache-2.0
# Made by `python -m e2e.images dockerfiles` from e2e/images/catalogue.py: edit that.
# docker build --file e2e/images/dockerfiles/connector-init.Dockerfile --tag tandem.dev/connector-init:0.1.0 .

FROM python:3.11-slim-bookworm AS wheels
RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /source
COPY pyproject.toml pyproject.toml
COPY uv.lock uv.lock
COPY operator operator
COPY connector connector
RUN for member in tandem-connector; do uv build --quiet --wheel --package "$member" --out-dir /built; done \
 && uv pip install --quiet --no-deps --no-index --find-links /built \
      --target /opt/tandem-connector tandem-connector

FROM busybox:1.36
COPY --from=wheels /opt/tandem-connector /opt/tandem-connector
COPY --chmod=755 <<"END" /copy-connector
#!/bin/sh
# Copies the connector's packages into a folder, which an engine has on its PYTHONPATH.
set -eu
target="${1:-/opt/tandem/connector}"
mkdir -p "$target"
cp -R /opt/tandem-connector/. "$target/"
echo "event=connector_copied target=$target"
END
ENV PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LABEL org.opencontainers.image.title="connector-init"
LABEL org.opencontainers.image.description="Copies Tandem's KV connector into the volume that it is given"
LABEL org.opencontainers.image.version="0.1.0"
USER 65532:65532
ENTRYPOINT ["/copy-connector"]
