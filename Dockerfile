# Build: no cgo, so that the result needs no libc. The digest names one image of the
# official repository for good, where a tag moves; the tag beside it is for people. To
# take a newer one, write both anew:
#
#   docker buildx imagetools inspect golang:1.26.8-bookworm        # prints the digest
#
# What runs is made from scratch, which is no image and needs no digest.
ARG BUILDER=golang:1.26.8-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d
FROM ${BUILDER} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# No history is copied, so the build is told what it builds:
#
#   docker build --build-arg VERSION="$(git describe --tags --always)" --build-arg REVISION="$(git rev-parse HEAD)" -t payersync .
ARG VERSION=development
ARG REVISION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X main.version=${VERSION} -X main.revision=${REVISION}" -o /out/payersync ./cmd/payersync
# scratch has no command that could make the folders of the ledger and of its backups.
RUN install -d -m 0700 /out/lib/payersync /out/lib/payersync-backups

# Run: one static binary, the certificates and time zones it asks for, one user
# who is not root. It needs no writable root, no capability and no privilege:
#
#   payersync init payersync && sudo chown -R 65532:65532 payersync   # its files are closed to others
#   docker run --read-only --tmpfs /tmp --memory=512m --cap-drop=ALL --security-opt=no-new-privileges \
#     -e PAYERSYNC_CONFIG=/etc/payersync/production.yaml -e BILLING_CLIENT_ID -e BILLING_CLIENT_SECRET \
#     -v ledger:/var/lib/payersync -v ./payersync:/etc/payersync:ro -p 127.0.0.1:8080:8080 payersync
#
# In production.yaml, ledger.key_file is /etc/payersync/payersync.key, and ledger.path lies below /var/lib/payersync, on a named
# volume: on a folder shared from another system the write-ahead log can be
# corrupted. server.webhooks listens on 0.0.0.0:8080, or the published port
# leads nowhere. A second volume at /var/lib/payersync-backups, named in backup.folder, takes
# the backups. /tmp is for check and demo alone: nothing of a ledger is ever put there.
#
# configs/deploy/compose.yaml and configs/deploy/kubernetes do the same, with secrets as files.
FROM scratch
ARG VERSION=development
ARG REVISION=
LABEL org.opencontainers.image.title="payersync" \
      org.opencontainers.image.description="Keeps a billing service's customers and direct debit mandates in step with an accounting system" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /usr/local/go/lib/time/zoneinfo.zip /usr/share/zoneinfo.zip
# The folder above them is copied, so that they arrive with their modes and owner.
COPY --from=build --chown=65532:65532 /out/lib/ /var/lib/
COPY --from=build /out/payersync /usr/local/bin/payersync

# Memory: the collector works harder near this much. Run with --memory=512m, or set
# both higher together.
ENV GOMEMLIMIT=400MiB \
    PAYERSYNC_CONFIG=/etc/payersync/payersync.yaml \
    ZONEINFO=/usr/share/zoneinfo.zip
USER 65532:65532
WORKDIR /var/lib/payersync
VOLUME ["/var/lib/payersync", "/var/lib/payersync-backups"]
EXPOSE 8080

HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["/usr/local/bin/payersync", "healthcheck"]

ENTRYPOINT ["/usr/local/bin/payersync"]
CMD ["serve"]
