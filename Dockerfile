# A Mainspring node that can replace Elsa's image: port 8080, the same environment variables.
#
#   docker build -t mainspring .
#
# Base images are pinned by tag and digest. For a newer one, take its tag and the Digest (of the list of platforms) that
# `docker buildx imagetools inspect rust:1.95.0-slim-bookworm` prints.
FROM rust:1.95.0-slim-bookworm@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082 AS build
# The JavaScript engine and the cryptography under TLS are C.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
# Without rust-toolchain.toml, which requests the newest stable compiler instead of the pinned one of the image.
COPY Cargo.toml Cargo.lock README.md ./
COPY crates crates
COPY src src
COPY sql sql
COPY samples samples
COPY examples examples
COPY benches/*.rs benches/
COPY benches/experiments benches/experiments
COPY tests tests
RUN cargo build --release --locked --features program --bin mainspring

FROM debian:bookworm-20260918-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251
# Certificates for TLS to the database, and curl for the health check.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin mainspring
COPY --from=build /source/target/release/mainspring /usr/local/bin/mainspring
USER 10001
# Elsa's image listens on this port of all addresses. A node with a public address starts only with a MAINSPRING_API_KEY
# (or with MAINSPRING_ALLOW_ANONYMOUS=true, which accepts all clients); the image sets neither.
ENV ASPNETCORE_HTTP_PORTS=8080
# A Compose file may start the database at the same time.
ENV MAINSPRING_DATABASE_WAIT=60s
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s --retries=6 \
    CMD ["curl", "-fsS", "http://127.0.0.1:8080/health/ready"]
ENTRYPOINT ["mainspring"]
CMD ["serve"]
