# A node of Mainspring that can stand where Elsa's image stood: port 8080, the same environment.
#
#   docker build -t mainspring .
FROM rust:1-slim-bookworm AS build
# The JavaScript engine and the cryptography under TLS are C.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY Cargo.toml Cargo.lock rust-toolchain.toml README.md ./
COPY src src
COPY sql sql
COPY samples samples
COPY examples examples
COPY benches/*.rs benches/
COPY tests tests
RUN cargo build --release --locked --bin mainspring

FROM debian:bookworm-slim
# Certificates for TLS to the database, and what the health check asks with.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin mainspring
COPY --from=build /source/target/release/mainspring /usr/local/bin/mainspring
USER 10001
# Elsa's image answers on this port of all addresses, and lets everybody in who reaches it. A MAINSPRING_API_KEY ends that.
ENV ASPNETCORE_HTTP_PORTS=8080
ENV MAINSPRING_ALLOW_ANONYMOUS=true
# A Compose file may start the database at the same moment.
ENV MAINSPRING_DATABASE_WAIT=60s
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s --retries=6 \
    CMD ["curl", "-fsS", "http://127.0.0.1:8080/health/ready"]
ENTRYPOINT ["mainspring"]
CMD ["serve"]
