#include "fleet/peer_probe.h"

#include <stdlib.h>

struct tt_peer_probe {
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_connect_t connecting;
    tt_peer_probe_fn *done; /* NULL: it was called, or must not be */
    void *context;
    uint16_t number;
    int8_t handles; /* open ones */
    char byte;      /* that no peer sends */
};

static void on_closed(uv_handle_t *handle) {
    struct tt_peer_probe *self = handle->data;
    if (--self->handles == 0)
        free(self);
}

void tt_peer_probe_cancel(struct tt_peer_probe *take_self) {
    if (!take_self)
        return;
    take_self->done = NULL;
    uv_close((uv_handle_t *)&take_self->tcp, on_closed);
    uv_close((uv_handle_t *)&take_self->timer, on_closed);
}

static void answer(struct tt_peer_probe *self, bool has_ended) {
    tt_peer_probe_fn *done = self->done;
    if (!done)
        return; /* its handles are being closed */
    void *context = self->context;
    uint16_t number = self->number;
    tt_peer_probe_cancel(self);
    done(context, number, has_ended);
}

/* The queue of a process that ends takes dials until its listener is closed, which resets them. */
static bool is_end(ssize_t status) {
    return status == UV_ECONNREFUSED || status == UV_ECONNRESET || status == UV_EOF;
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out) {
    (void)suggested;
    struct tt_peer_probe *self = handle->data;
    *out = uv_buf_init(&self->byte, 1);
}

static void on_read(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer) {
    (void)buffer;
    if (bytes != 0)
        answer(stream->data, is_end(bytes));
}

static void on_connected(uv_connect_t *request, int status) {
    struct tt_peer_probe *self = request->handle->data;
    if (!self->done)
        return; /* its handles are being closed */
    if (status == 0)
        status = uv_read_start(request->handle, on_room, on_read);
    if (status < 0)
        answer(self, is_end(status));
}

static void on_timeout(uv_timer_t *timer) { answer(timer->data, false); }

struct tt_peer_probe *tt_peer_probe_begin(uv_loop_t *loop, uint16_t number,
                                          const struct sockaddr_storage *address, uint64_t wait_ms,
                                          tt_peer_probe_fn *done, void *context) {
    struct tt_peer_probe *self = malloc(sizeof(*self));
    if (!self)
        return NULL;
    *self =
        (struct tt_peer_probe){.done = done, .context = context, .number = number, .handles = 2};
    uv_tcp_init(loop, &self->tcp);
    uv_timer_init(loop, &self->timer);
    self->tcp.data = self->timer.data = self;
    uv_timer_start(&self->timer, on_timeout, wait_ms, 0);
    if (uv_tcp_connect(&self->connecting, &self->tcp, (const struct sockaddr *)address,
                       on_connected) == 0)
        return self;
    tt_peer_probe_cancel(self);
    return NULL;
}
