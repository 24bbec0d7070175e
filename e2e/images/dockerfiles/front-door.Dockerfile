# SPDX-License-Identifier: Apache-2.0
# Made by `python -m e2e.images dockerfiles` from e2e/images/catalogue.py: edit that.
# docker build --file e2e/images/dockerfiles/front-door.Dockerfile --tag tandem.dev/front-door:0.1.0 .

FROM python:3.11-slim-bookworm AS wheels
RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /source
COPY e2e/images/front_door/pyproject.toml e2e/images/front_door/pyproject.toml
COPY e2e/images/front_door/uv.lock e2e/images/front_door/uv.lock
RUN uv export --quiet --frozen --no-header --no-default-groups --no-emit-project --output-file /requirements.txt --project e2e/images/front_door \
 && uv pip install --quiet --no-deps --require-hashes --only-binary :all: \
      --target /opt/router/lib/python3.11/site-packages --requirement /requirements.txt
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/router/lib/python3.11/site-packages

FROM debian:12-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3.11 libstdc++6 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=wheels /opt/router/lib/python3.11/site-packages /opt/router/lib/python3.11/site-packages
COPY --chmod=644 <<"END" /opt/router/pyvenv.cfg
home = /usr/bin
include-system-site-packages = false
END
COPY --chmod=755 <<"END" /opt/router/bin/vllm-router
#!/opt/router/bin/python3
import sys
from vllm_router.launch_router import main
sys.exit(main())
END
RUN mkdir -p /opt/router/bin && ln -s /usr/bin/python3.11 /opt/router/bin/python3
ENV PATH="/opt/router/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENV PYTHONUNBUFFERED="1"
LABEL org.opencontainers.image.title="front-door"
LABEL org.opencontainers.image.description="vllm-router, the default front door of Tandem's engines"
LABEL org.opencontainers.image.version="0.1.0"
USER 65532:65532
ENTRYPOINT ["vllm-router"]
