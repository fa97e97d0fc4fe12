#include "cmd/serve_grpc.h"

#include "net/sockets/socket_server.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct tt_serve_grpc {
    struct tt_grpc_listener *listener;
    pthread_t thread;
};

static void *run(void *context) {
    tt_grpc_listener_run(context);
    return NULL;
}

enum tt_err tt_serve_grpc_check(const char *host, int32_t tcp_port, struct tt_error *why) {
    enum tt_err err = tt_socket_server_check(host, tcp_port, why);
    return err ? tt_fail_in(err, why, "--grpc-port %d", tcp_port) : TT_OK;
}

enum tt_err tt_serve_grpc_open(struct tt_serving *serving,
                               const struct tt_grpc_listener_options *options,
                               struct tt_serve_grpc **out_grpc, struct tt_error *why) {
    struct tt_serve_grpc *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for gRPC");
    enum tt_err err = tt_grpc_listener_open(serving, options, &self->listener, why);
    if (err)
        err = tt_fail_in(err, why, "--grpc-port %d", options->tcp_port);
    if (!err) {
        int failed = pthread_create(&self->thread, NULL, run, self->listener);
        if (failed) {
            tt_grpc_listener_close(self->listener);
            err = tt_fail(TT_ERR_IO, why, "cannot start the thread of gRPC: %s", strerror(failed));
        }
    }
    if (err) {
        free(self);
        return err;
    }
    *out_grpc = self;
    return TT_OK;
}

const struct tt_grpc_listener *tt_serve_grpc_listener(const struct tt_serve_grpc *self) {
    return self->listener;
}

void tt_serve_grpc_stop(struct tt_serve_grpc *self, int64_t grace_ms) {
    if (self)
        tt_grpc_listener_stop(self->listener, grace_ms);
}

void tt_serve_grpc_close(struct tt_serve_grpc *take_self, bool was_stopped) {
    if (!take_self)
        return;
    if (!was_stopped)
        tt_grpc_listener_stop(take_self->listener, 0);
    pthread_join(take_self->thread, NULL);
    tt_grpc_listener_close(take_self->listener);
    free(take_self);
}
