#include "net/sockets/socket_inbox.h"

#include "base/threads/ring.h"

#include <stdlib.h>
#include <unistd.h>

enum { CAPACITY = 1024 }; /* as many as wait to be accepted */

struct tt_socket_inbox {
    struct tt_ring ring; /* of descriptors, as pack() makes pointers of them */
};

static void *pack(struct tt_handed_socket socket) {
    uintptr_t bits = ((uintptr_t)socket.fd + 1) << 2 | (uintptr_t)socket.which << 1;
    return (void *)(bits | (socket.is_full ? 1 : 0));
}

static struct tt_handed_socket unpack(const void *item) {
    uintptr_t bits = (uintptr_t)item;
    return (struct tt_handed_socket){
        .fd = (int)(bits >> 2) - 1, .which = (int)(bits >> 1 & 1), .is_full = (bits & 1) != 0};
}

enum tt_err tt_socket_inbox_open(struct tt_socket_inbox **out_inbox, struct tt_error *why) {
    struct tt_socket_inbox *self = aligned_alloc(64, sizeof(*self));
    if (!self || tt_ring_init(&self->ring, CAPACITY) != TT_OK) {
        free(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for a connection thread");
    }
    *out_inbox = self;
    return TT_OK;
}

void tt_socket_inbox_close(struct tt_socket_inbox *take_self) {
    struct tt_handed_socket socket;
    if (!take_self)
        return;
    while (tt_socket_inbox_take(take_self, &socket))
        close(socket.fd);
    tt_ring_fini(&take_self->ring);
    free(take_self);
}

bool tt_socket_inbox_put(struct tt_socket_inbox *self, struct tt_handed_socket socket) {
    tt_assert(socket.fd >= 0);
    tt_assert(socket.which == 0 || socket.which == 1);
    return tt_ring_push(&self->ring, pack(socket));
}

bool tt_socket_inbox_take(struct tt_socket_inbox *self, struct tt_handed_socket *out_socket) {
    void *item = tt_ring_pop(&self->ring);
    if (item)
        *out_socket = unpack(item);
    return item != NULL;
}
