# An image of `brimful serve` and `brimful work`. Build it with `docker build -t brimful .`

FROM node:22-slim AS page
WORKDIR /src/web
COPY web/ ./
RUN npm install --no-save && npm run build

FROM python:3.13-slim AS wheel
WORKDIR /src
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
COPY . .
COPY --from=page /src/src/brimful/server/static src/brimful/server/static
RUN sed -n '/^pip==/,/[^\\]$/p' constraints.txt | pip install --no-cache-dir --requirement /dev/stdin \
 && pip install --no-cache-dir --constraint constraints.txt hatchling \
 && pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
 && python tools/requirements.py encryption mcp metrics postgres prices server > /wheels/requirements.txt

FROM python:3.13-slim
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
COPY constraints.txt /tmp/
COPY --from=wheel /wheels /tmp/wheels
RUN sed -n '/^pip==/,/[^\\]$/p' /tmp/constraints.txt | pip install --no-cache-dir --requirement /dev/stdin \
 && pip install --no-cache-dir --constraint /tmp/constraints.txt --requirement /tmp/wheels/requirements.txt \
 && pip install --no-cache-dir --no-deps /tmp/wheels/*.whl \
 && rm -r /tmp/wheels /tmp/constraints.txt \
 && useradd --uid 10001 --create-home brimful \
 && install --directory --owner=brimful /data
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --start-period=20s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=3)"]
ENTRYPOINT ["brimful"]
CMD ["serve", "--listen", "0.0.0.0:8080", "--require-keys", "--db", "sqlite:////data/brimful.db"]
