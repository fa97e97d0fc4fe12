#include "net/tls/tls_loop.h"

#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

enum { SPARE_BYTES = 2 * TT_TLS_SEAL_BYTES }; /* more is given back */

struct tt_tls_loop *tt_tls_loop_new(struct tt_tls_server *server) {
    struct tt_tls_loop *self = malloc(sizeof(*self));
    if (!self)
        return NULL;
    self->server = server;
    self->view = (struct tt_published_view){0};
    self->gathered_bytes = 0;
    self->open_count = 0;
    tt_text_init(&self->spare);
    return self;
}

void tt_tls_loop_free(struct tt_tls_loop *take_self) {
    if (!take_self)
        return;
    tt_assert(take_self->open_count == 0);
    tt_published_view_fini(&take_self->view);
    tt_text_fini(&take_self->spare);
    free(take_self);
}

struct tt_tls_session *tt_tls_loop_accept(struct tt_tls_loop *self, enum tt_tls_protocol protocol) {
    struct tt_tls_session *session =
        tt_tls_session_new(tt_tls_server_context(self->server, &self->view), protocol);
    if (!session)
        return NULL;
    if (self->open_count >= TT_TLS_QUICK_SESSIONS) /* to keep buffers would take much memory */
        SSL_set_mode(session->ssl, SSL_MODE_RELEASE_BUFFERS);
    session->open_count = &self->open_count;
    self->open_count++;
    return session;
}

static bool encrypt(struct tt_tls_loop *self, struct tt_tls_session *session, const void *bytes,
                    size_t count) {
    if (!session->out.bytes) {
        session->out = self->spare;
        tt_text_init(&self->spare);
    }
    return tt_tls_session_write(session, bytes, count);
}

bool tt_tls_loop_end(struct tt_tls_loop *self, struct tt_tls_session *session) {
    size_t count = self->gathered_bytes;
    self->gathered_bytes = 0;
    return count == 0 || encrypt(self, session, self->gathered, count);
}

bool tt_tls_loop_add(struct tt_tls_loop *self, struct tt_tls_session *session, const void *bytes,
                     size_t count) {
    const char *from = bytes;
    bool good = true;
    while (count && good) {
        size_t room = sizeof(self->gathered) - self->gathered_bytes;
        size_t taken = count < room ? count : room;
        if (self->gathered_bytes == 0 && count >= room)
            return encrypt(self, session, from, count);
        memcpy(self->gathered + self->gathered_bytes, from, taken);
        self->gathered_bytes += taken;
        from += taken;
        count -= taken;
        if (taken == room)
            good = tt_tls_loop_end(self, session);
    }
    return good;
}

void tt_tls_loop_written(struct tt_tls_loop *self, struct tt_tls_session *session) {
    struct tt_text *out = &session->out;
    tt_text_clear(out);
    if (!self->spare.bytes && out->capacity <= SPARE_BYTES) {
        self->spare = *out;
        tt_text_init(out);
    } else {
        tt_text_fini(out);
    }
}
