#include "net/sockets/loop_wake.h"

#include "base/err.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

void tt_loop_wake_init(struct tt_loop_wake *self) {
    tt_pending_init(&self->pending);
    self->fd = -1;
}

static void on_readable(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    struct tt_loop_wake *self = TT_CONTAINER_OF(poll, struct tt_loop_wake, poll);
    uint64_t count;
    if (read(self->fd, &count, sizeof(count)) < 0)
        return; /* the loop calls again while there is something to read */
    tt_pending_clear(&self->pending);
    self->woken(poll->data);
}

int tt_loop_wake_open(struct tt_loop_wake *self, uv_loop_t *loop, void (*woken)(void *owner),
                      void *owner) {
    self->woken = woken;
    self->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->fd < 0)
        return uv_translate_sys_error(errno);
    int result = uv_poll_init(loop, &self->poll, self->fd);
    self->poll.data = owner;
    return result ? result : uv_poll_start(&self->poll, UV_READABLE, on_readable);
}

void tt_loop_wake_send(struct tt_loop_wake *self) {
    const uint64_t one = 1;
    if (!tt_pending_set(&self->pending))
        return;
    while (write(self->fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

void tt_loop_wake_fini(struct tt_loop_wake *self) {
    if (self->fd >= 0)
        close(self->fd);
    self->fd = -1;
}
