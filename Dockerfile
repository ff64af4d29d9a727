# The three programs as images of their own, with nothing beside them:
#
#   docker build --target hub -t carillon-hub .
#   docker build --target notifier -t carillon-notifier .
#   docker build --target destination -t carillon-destination .
#
# They run as user 65532 and keep what they must not lose in /data. There is no
# shell; `hub ready` is what health checks run.

# A patch release of the Go in go.mod, at least the one of its toolchain line, by its digest. For
# a newer one change both; `docker buildx imagetools inspect golang:VERSION-alpine` prints it.
ARG GO_IMAGE=golang:1.26.9-alpine@sha256:cdfd4fe2da6b225d8b40c6b7a105736e548e83ff56d5d8f9394446eeb5eb84e0

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The flags of `make build`, which makes the same bytes with the same release of Go.
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w -buildid=" -o /out/ ./cmd/hub ./cmd/notifier ./cmd/destination \
 && mkdir /data

FROM scratch AS base
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/hub /hub
COPY --from=build --chown=65532:65532 --chmod=700 /data /data
USER 65532:65532
VOLUME /data
WORKDIR /data
# What ends a program in order; it takes up to 30 s.
STOPSIGNAL SIGTERM

FROM base AS notifier
COPY --from=build /out/notifier /notifier
ENV NOTIFIER_LISTEN=0.0.0.0:8090 NOTIFIER_INTAKE=127.0.0.1:8091 NOTIFIER_DATA=/data/notifier
EXPOSE 8090
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/hub", "ready", "--admin=127.0.0.1:8091", "--path=/healthz"]
ENTRYPOINT ["/notifier"]

FROM base AS destination
COPY --from=build /out/destination /destination
ENV DESTINATION_LISTEN=0.0.0.0:8092 DESTINATION_DATA=/data/destination
EXPOSE 8092
ENTRYPOINT ["/destination"]

# The last is what is built without --target. It needs --url (HUB_URL).
FROM base AS hub
ENV HUB_LISTEN=0.0.0.0:8080 HUB_ADMIN=127.0.0.1:8081 HUB_STORE=pebble:/data/hub
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/hub", "ready"]
ENTRYPOINT ["/hub"]
