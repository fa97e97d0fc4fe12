#include "fleet/visit.h"

#include "base/clock.h"
#include "base/varint.h"
#include "net/tls/tls_session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_BYTES = 4, MAX_ANSWER_BYTES = 1 << 20, SEALED_BYTES = 16384 };
enum { LOOK_MS = 50 }; /* the longest wait that counts whole */

struct line {
    int fd;
    int64_t left_ns; /* of the time to wait */
    const struct tt_cluster_place *place;
    uint8_t bytes[2 * TT_HANDSHAKE_MAX_BYTES]; /* read and not taken yet */
    size_t count;
    struct tt_tls_session *tls; /* NULL: the bytes go as they are */
    char sealed[SEALED_BYTES];  /* fed to it */
};

static enum tt_err fail(const struct line *self, struct tt_error *why) {
    bool is_away = errno == ECONNREFUSED || errno == ECONNRESET || errno == EPIPE;
    return tt_fail(is_away ? TT_ERR_UNAVAILABLE : TT_ERR_IO, why, "%s at %s:%d: %s",
                   self->place->name, self->place->host, self->place->tcp_port, strerror(errno));
}

/* While the machine stands still, the node cannot answer either: of such a time only a short wait
 * counts. */
static enum tt_err wait_for(struct line *self, short events, struct tt_error *why) {
    while (self->left_ns > 0) {
        int64_t left_ms = self->left_ns / TT_MS + 1, began_at = tt_clock_now();
        struct pollfd poll_fd = {.fd = self->fd, .events = events};
        int ready = poll(&poll_fd, 1, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
        int problem = errno;
        int64_t took_ns = tt_clock_now() - began_at;
        self->left_ns -= took_ns < LOOK_MS * TT_MS ? took_ns : LOOK_MS * TT_MS;
        if (ready > 0)
            return TT_OK;
        errno = problem;
        if (ready < 0 && errno != EINTR)
            return fail(self, why);
    }
    return tt_fail(TT_ERR_TIMEOUT, why, "%s at %s:%d does not answer", self->place->name,
                   self->place->host, self->place->tcp_port);
}

static enum tt_err dial(struct line *self, struct tt_error *why) {
    struct sockaddr_storage address;
    socklen_t bytes;
    enum tt_err err = tt_cluster_place_resolve(self->place, &address, &bytes, why);
    if (err)
        return err;
    self->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int problem, result = -1;
    if (self->fd >= 0)
        result = connect(self->fd, (const struct sockaddr *)&address, bytes);
    if (result < 0 && errno != EINPROGRESS)
        return fail(self, why);
    err = wait_for(self, POLLOUT, why);
    socklen_t length = sizeof(problem);
    if (!err && getsockopt(self->fd, SOL_SOCKET, SO_ERROR, &problem, &length) == 0 && problem) {
        errno = problem;
        err = fail(self, why);
    }
    return err;
}

static enum tt_err send_raw(struct line *self, const uint8_t *bytes, size_t count,
                            struct tt_error *why) {
    while (count > 0) {
        ssize_t sent = send(self->fd, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return fail(self, why);
        if (sent < 0) {
            enum tt_err err = wait_for(self, POLLOUT, why);
            if (err)
                return err;
            continue;
        }
        bytes += sent;
        count -= (size_t)sent;
    }
    return TT_OK;
}

static enum tt_err read_raw(struct line *self, uint8_t *out, size_t room, size_t *out_count,
                            struct tt_error *why) {
    for (;;) {
        enum tt_err err = wait_for(self, POLLIN, why);
        if (err)
            return err;
        ssize_t count = recv(self->fd, out, room, 0);
        if (count > 0) {
            *out_count = (size_t)count;
            return TT_OK;
        }
        if (count == 0)
            return tt_fail(TT_ERR_UNAVAILABLE, why, "%s at %s:%d closed the connection",
                           self->place->name, self->place->host, self->place->tcp_port);
        if (errno != EAGAIN && errno != EINTR)
            return fail(self, why);
    }
}

/* ---- TLS ---- */

static enum tt_err send_sealed(struct line *self, struct tt_error *why) {
    struct tt_text *out = &self->tls->out;
    enum tt_err err = send_raw(self, (const uint8_t *)out->bytes, out->length, why);
    tt_text_clear(out);
    return err;
}

static enum tt_err refused(const struct line *self, struct tt_error *why) {
    return tt_fail(TT_ERR_INVALID, why, "%s: TLS: %s", self->place->name,
                   tt_tls_session_reason(self->tls));
}

/* Reads what came before it waits for more. `until_established`: nothing need be there then. */
static enum tt_err read_sealed(struct line *self, bool until_established, uint8_t *out, size_t room,
                               size_t *out_count, struct tt_error *why) {
    *out_count = 0;
    for (;;) {
        enum tt_tls_event event = tt_tls_session_read(self->tls, (char *)out, room, out_count);
        enum tt_err err = send_sealed(self, why);
        if (event == TT_TLS_FAILED)
            return refused(self, why);
        if (event == TT_TLS_END)
            return tt_fail(TT_ERR_UNAVAILABLE, why, "%s at %s:%d closed the connection",
                           self->place->name, self->place->host, self->place->tcp_port);
        if (err || event == TT_TLS_DATA || (until_established && self->tls->is_established))
            return err;
        size_t count;
        err = read_raw(self, (uint8_t *)self->sealed, sizeof(self->sealed), &count, why);
        if (err)
            return err;
        tt_tls_session_feed(self->tls, self->sealed, count);
    }
}

static enum tt_err establish(struct line *self, const struct tt_cluster_tls *tls,
                             struct tt_error *why) {
    if (!tls->dialer)
        return TT_OK;
    self->tls = tt_tls_session_connect(tls->dialer, self->place->host);
    if (!self->tls)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    return read_sealed(self, true, self->bytes, sizeof(self->bytes), &self->count, why);
}

static enum tt_err send_bytes(struct line *self, const uint8_t *bytes, size_t count,
                              struct tt_error *why) {
    if (!self->tls)
        return send_raw(self, bytes, count, why);
    return tt_tls_session_write(self->tls, bytes, count) ? send_sealed(self, why)
                                                         : refused(self, why);
}

static enum tt_err read_some(struct line *self, uint8_t *out, size_t room, size_t *out_count,
                             struct tt_error *why) {
    return self->tls ? read_sealed(self, false, out, room, out_count, why)
                     : read_raw(self, out, room, out_count, why);
}

/* ---- lines ---- */

static enum tt_err shake_hands(struct line *self, const struct tt_visit *visit,
                               struct tt_error *why) {
    const struct tt_identity own = {.release = visit->release, .node = TT_CLUSTER_NO_NODE};
    uint8_t nonce[TT_HANDSHAKE_NONCE_BYTES];
    ssize_t drawn = getrandom(nonce, sizeof(nonce), 0);
    tt_assert(drawn == (ssize_t)sizeof(nonce));
    struct tt_handshake handshake;
    struct tt_handshake_reply reply;
    tt_handshake_begin(&handshake, &own, true, visit->number, visit->file->count, visit->key, nonce,
                       &reply);
    for (;;) {
        enum tt_err err = send_bytes(self, reply.bytes, reply.count, why);
        if (err || handshake.state == TT_HANDSHAKE_DONE)
            return err;
        size_t used = 0, more;
        err = tt_handshake_read(&handshake, self->bytes, self->count, &used, &reply, why);
        if (err)
            return tt_fail_in(err, why, "%s", self->place->name);
        self->count -= used;
        memmove(self->bytes, self->bytes + used, self->count);
        if (used > 0)
            continue;
        err = read_some(self, self->bytes + self->count, sizeof(self->bytes) - self->count, &more,
                        why);
        if (err)
            return err;
        self->count += more;
    }
}

static enum tt_err read_exactly(struct line *self, uint8_t *out, size_t count,
                                struct tt_error *why) {
    while (count > 0) {
        size_t more;
        enum tt_err err = read_some(self, out, count, &more, why);
        if (err)
            return err;
        out += more;
        count -= more;
    }
    return TT_OK;
}

static enum tt_err talk(struct line *self, const char *line, struct tt_text *out_answer,
                        struct tt_error *why) {
    uint8_t head[HEAD_BYTES];
    tt_put_u32(head, (uint32_t)strlen(line));
    enum tt_err err = send_bytes(self, head, sizeof(head), why);
    if (!err)
        err = send_bytes(self, (const uint8_t *)line, strlen(line), why);
    if (!err)
        err = read_exactly(self, head, sizeof(head), why);
    if (err)
        return err;
    uint32_t length = tt_get_u32(head);
    char *room = length <= MAX_ANSWER_BYTES ? tt_text_reserve(out_answer, length + 1) : NULL;
    if (!room)
        return tt_fail(TT_ERR_INVALID, why, "%s answers with %u bytes", self->place->name, length);
    err = read_exactly(self, (uint8_t *)room, length, why);
    if (!err) {
        out_answer->length += length;
        room[length] = '\0';
    }
    return err;
}

enum tt_err tt_visit(const struct tt_visit *visit, const char *line, struct tt_text *out_answer,
                     struct tt_error *why) {
    struct line self = {
        .fd = -1, .left_ns = visit->timeout_ns, .place = &visit->file->places[visit->number]};
    enum tt_err err = dial(&self, why);
    if (!err)
        err = establish(&self, visit->tls, why);
    if (!err)
        err = shake_hands(&self, visit, why);
    if (!err)
        err = talk(&self, line, out_answer, why);
    tt_tls_session_free(self.tls);
    if (self.fd >= 0)
        close(self.fd);
    return err;
}
