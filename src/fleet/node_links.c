#include "fleet/node_links.h"

#include "base/log/log.h"
#include "base/varint.h"
#include "fleet/node_connection.h"
#include "fleet/node_lookup.h"
#include "fleet/peer_probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TICK_MS = 20, DIAL_AGAIN_MS = 100, PROBE_MS = 100 };
enum { HANDSHAKE_MS = 3000, UNACKNOWLEDGED_MS = 2000 };
enum { READ_AT_ONCE = 32 };
_Static_assert((int)PROBE_MS < (int)HANDSHAKE_MS, "a peer that lives ends a probe no earlier");
enum { DATAGRAM_MAGIC = 0x42435454, DATAGRAM_HEAD_BYTES = 16 }; /* "TTCB" */

static const struct tt_cluster_place *place_of(const struct tt_node_links *self, uint16_t peer) {
    return &self->options.file->places[peer];
}

/* Two nodes talk to each other unless they have the same role; schedulers always do. */
static bool may_talk(const struct tt_node_links *self, uint16_t peer) {
    enum tt_cluster_role own = place_of(self, self->options.number)->role;
    return peer != self->options.number &&
           (place_of(self, peer)->role != own || own == TT_ROLE_SCHEDULER);
}

/* ---- links ---- */

static void report(struct tt_node_links *self, uint16_t peer, enum tt_link link) {
    if (!self->is_closing)
        self->options.events->linked(self->options.context, peer, link);
}

/* The link is no more. */
static void unlink_peer(struct tt_node_links *self, uint16_t peer, enum tt_link link) {
    self->peers[peer].link = NULL;
    tt_peer_probe_cancel(self->peers[peer].probe);
    self->peers[peer].probe = NULL;
    tt_log_limited(self->options.log, TT_LOG_INFO, NULL, "cluster: the link to %s is %s",
                   place_of(self, peer)->name, link == TT_LINK_CLOSED ? "closed" : "lost");
    report(self, peer, link);
}

static void set_port(struct sockaddr_storage *address, int32_t tcp_port) {
    in_port_t port = htons((uint16_t)tcp_port);
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = port;
    else
        ((struct sockaddr_in *)address)->sin_port = port;
}

/* Its connection shows where a node with a name is; its port is that of its place. */
static void note_address(struct tt_node_links *self, uint16_t number, uv_tcp_t *tcp) {
    struct tt_node_peer *peer = &self->peers[number];
    struct sockaddr_storage address;
    int bytes = sizeof(address);
    if (!peer->is_named || uv_tcp_getpeername(tcp, (struct sockaddr *)&address, &bytes) < 0)
        return;
    set_port(&address, place_of(self, number)->tcp_port);
    peer->address = address;
}

static bool welcome(struct tt_node_links *self, struct tt_connection *connection) {
    uint16_t number = connection->peer;
    struct tt_node_peer *peer = &self->peers[number];
    if (!may_talk(self, number) ||
        (peer->link && connection->handshake.peer.incarnation < peer->incarnation)) {
        tt_connection_close(connection);
        return false;
    }
    if (peer->dialing == connection)
        peer->dialing = NULL;
    if (peer->link || peer->probe) {
        /* The same life of the peer gave the link up, as after a cut. */
        bool lives = connection->handshake.peer.incarnation == peer->incarnation;
        if (peer->link)
            tt_connection_close(peer->link);
        unlink_peer(self, number, lives ? TT_LINK_LOST : TT_LINK_CLOSED);
    }
    note_address(self, number, &connection->tcp);
    peer->link = connection;
    peer->incarnation = connection->handshake.peer.incarnation;
    peer->sent = peer->seen = 0;
    peer->was_refused = false;
    int unacknowledged = UNACKNOWLEDGED_MS;
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&connection->tcp, &fd) == 0)
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged, sizeof(unacknowledged));
    uv_tcp_keepalive(&connection->tcp, 1, 1);
    tt_log_limited(self->options.log, TT_LOG_INFO, NULL, "cluster: linked to %s",
                   place_of(self, number)->name);
    report(self, number, TT_LINK_UP);
    return true;
}

/* The network gave up, as far as the status says; else the peer closed it. */
static bool is_lost(int status) {
    return status == UV_ETIMEDOUT || status == UV_EHOSTUNREACH || status == UV_ENETUNREACH ||
           status == UV_ENETDOWN;
}

static void on_probed(void *context, uint16_t number, bool has_ended) {
    struct tt_node_links *self = context;
    self->peers[number].probe = NULL; /* it frees itself */
    unlink_peer(self, number, has_ended ? TT_LINK_CLOSED : TT_LINK_LOST);
}

/* What a reset means is found out; until then the owner believes the link up. */
static void was_reset(struct tt_node_links *self, uint16_t number) {
    struct tt_node_peer *peer = &self->peers[number];
    peer->link = NULL;
    peer->probe =
        tt_peer_probe_begin(self->loop, number, &peer->address, PROBE_MS, on_probed, self);
    if (!peer->probe)
        unlink_peer(self, number, TT_LINK_LOST);
}

static void ended(struct tt_node_links *self, struct tt_connection *connection, int status,
                  const struct tt_error *why) {
    bool is_node = connection->peer != TT_CLUSTER_NO_NODE;
    struct tt_node_peer *peer = is_node ? &self->peers[connection->peer] : NULL;
    const char *name = is_node ? place_of(self, connection->peer)->name : "a visitor";
    if (why && !(peer && peer->was_refused)) {
        tt_log_limited(self->options.log, TT_LOG_WARNING, NULL, "cluster: %s: %s", name, why->text);
        if (peer)
            peer->was_refused = true;
    }
    tt_connection_close(connection);
    if (!peer)
        return;
    if (peer->dialing == connection)
        peer->dialing = NULL;
    peer->dial_at_ms = uv_now(self->loop) + DIAL_AGAIN_MS;
    if (peer->link != connection)
        return;
    if (status == UV_ECONNRESET || status == UV_EPIPE)
        was_reset(self, connection->peer);
    else
        unlink_peer(self, connection->peer, is_lost(status) ? TT_LINK_LOST : TT_LINK_CLOSED);
}

static const struct tt_connection_events connection_events = {.welcome = welcome, .ended = ended};

/* ---- dialing and accepting ---- */

static void on_connected(uv_connect_t *request, int status) {
    struct tt_connection *self = request->handle->data;
    if (self->is_closing)
        return;
    if (status < 0)
        ended(self->links, self, status, NULL);
    else
        tt_connection_begin(self, true);
}

/* A node with a name dials from its own address: there its peers send datagrams. */
static int bind_source(const struct tt_node_links *self, struct tt_connection *connection) {
    const struct tt_node_peer *own = &self->peers[self->options.number];
    struct sockaddr_storage source = own->address;
    set_port(&source, 0);
    return own->is_named ? uv_tcp_bind(&connection->tcp, (const struct sockaddr *)&source, 0) : 0;
}

static void dial_address(struct tt_node_links *self, uint16_t number) {
    struct tt_node_peer *peer = &self->peers[number];
    peer->dialing = tt_connection_new(self, &connection_events, number);
    if (!peer->dialing)
        return; /* later, perhaps */
    int result = bind_source(self, peer->dialing);
    if (result == 0)
        result = uv_tcp_connect(&peer->dialing->connecting, &peer->dialing->tcp,
                                (const struct sockaddr *)&peer->address, on_connected);
    if (result < 0)
        ended(self, peer->dialing, result, NULL);
}

static void on_looked_up(void *context, uint16_t number, const struct sockaddr *address,
                         size_t address_bytes, const char *reason) {
    struct tt_node_links *self = context;
    struct tt_node_peer *peer = &self->peers[number];
    peer->lookup = NULL;
    peer->dial_at_ms = uv_now(self->loop) + DIAL_AGAIN_MS;
    if (address && !peer->link && !peer->dialing) {
        tt_assert(address_bytes <= sizeof(peer->address));
        memcpy(&peer->address, address, address_bytes);
        dial_address(self, number);
    } else if (!address && !peer->was_refused) {
        peer->was_refused = true;
        tt_log_limited(self->options.log, TT_LOG_WARNING, NULL,
                       "cluster: %s: no address of \"%s\": %s; it is looked up again",
                       place_of(self, number)->name, place_of(self, number)->host, reason);
    }
}

static void dial(struct tt_node_links *self, uint16_t number) {
    struct tt_node_peer *peer = &self->peers[number];
    peer->dial_at_ms = uv_now(self->loop) + DIAL_AGAIN_MS;
    if (peer->is_named) /* out of memory: later, perhaps */
        peer->lookup =
            tt_node_lookup_begin(self->loop, place_of(self, number), number,
                                 &self->peers[self->options.number].address, on_looked_up, self);
    else
        dial_address(self, number);
}

static void on_tick(uv_timer_t *timer) {
    struct tt_node_links *self = timer->data;
    uint64_t now_ms = uv_now(self->loop);
    for (struct tt_connection *c = self->connections, *next; c; c = next) {
        next = c->next;
        if (!c->is_done && now_ms - c->begun_ms > HANDSHAKE_MS)
            ended(self, c, UV_ETIMEDOUT, NULL);
    }
    for (uint16_t peer = 0; peer < self->options.number; peer++)
        if (may_talk(self, peer) && !self->peers[peer].link && !self->peers[peer].dialing &&
            !self->peers[peer].lookup && now_ms >= self->peers[peer].dial_at_ms)
            dial(self, peer);
}

static void on_connection(uv_stream_t *listener, int status) {
    struct tt_node_links *self = listener->data;
    struct tt_connection *connection =
        status < 0 ? NULL : tt_connection_new(self, &connection_events, TT_CLUSTER_NO_NODE);
    if (!connection)
        return;
    if (uv_accept(listener, (uv_stream_t *)&connection->tcp) < 0)
        tt_connection_close(connection);
    else
        tt_connection_begin(connection, false);
}

/* ---- datagrams ---- */

void tt_node_links_send_datagram(struct tt_node_links *self, uint16_t number,
                                 const struct tt_frame *frame) {
    struct tt_node_peer *peer = &self->peers[number];
    if (!peer->link || frame->count > 1)
        return;
    uint8_t bytes[sizeof(self->datagram)];
    size_t count = DATAGRAM_HEAD_BYTES + tt_frame_bytes(frame->count);
    tt_put_u32(bytes, DATAGRAM_MAGIC);
    tt_put_u32(bytes + 4, self->options.number);
    tt_put_u64(bytes + 8, ++peer->sent);
    tt_frame_write(frame, bytes + DATAGRAM_HEAD_BYTES);
    tt_datagram_tagger_sign(&self->tagger, peer->link->handshake.session, bytes, count,
                            bytes + count);
    uv_buf_t buffer = uv_buf_init((char *)bytes, (unsigned)(count + TT_DATAGRAM_TAG_BYTES));
    /* What does not go out now is lost, as datagrams are. */
    uv_udp_try_send(&self->datagrams, &buffer, 1, (const struct sockaddr *)&peer->address);
}

/* Nothing of a datagram is trusted before its tag was checked. */
static void take_datagram(struct tt_node_links *self, const uint8_t *bytes, size_t count) {
    enum { LEAST = DATAGRAM_HEAD_BYTES + TT_FRAME_HEAD_BYTES + TT_DATAGRAM_TAG_BYTES };
    self->bad_datagrams++;
    if (count < LEAST || tt_get_u32(bytes) != DATAGRAM_MAGIC)
        return;
    uint32_t number = tt_get_u32(bytes + 4);
    uint64_t counter = tt_get_u64(bytes + 8);
    if (number >= (uint32_t)self->options.file->count || !self->peers[number].link)
        return;
    struct tt_node_peer *peer = &self->peers[number];
    size_t signed_bytes = count - TT_DATAGRAM_TAG_BYTES;
    uint8_t tag[TT_DATAGRAM_TAG_BYTES];
    tt_datagram_tagger_sign(&self->tagger, peer->link->handshake.session, bytes, signed_bytes, tag);
    if (!tt_datagram_tag_equals(tag, bytes + signed_bytes) || counter <= peer->seen)
        return;
    peer->seen = counter;
    struct tt_received received = {.payload = NULL};
    struct tt_error why;
    size_t used;
    enum tt_err err = tt_frame_read(bytes + DATAGRAM_HEAD_BYTES, signed_bytes - DATAGRAM_HEAD_BYTES,
                                    self->records, &received.frame, &used, &why);
    enum tt_frame_type type = received.frame.type;
    if (err || used == 0 ||
        (type != TT_FRAME_BEAT && type != TT_FRAME_ASK && type != TT_FRAME_OPINION))
        return;
    self->bad_datagrams--;
    self->options.events->received(self->options.context, (uint16_t)number, &received);
}

static void on_datagram_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out) {
    (void)suggested;
    struct tt_node_links *self = handle->data;
    *out = uv_buf_init((char *)self->datagram, sizeof(self->datagram));
}

static void on_datagram(uv_udp_t *handle, ssize_t count, const uv_buf_t *buffer,
                        const struct sockaddr *from, unsigned flags) {
    struct tt_node_links *self = handle->data;
    if (count > 0 && from && !(flags & UV_UDP_PARTIAL) && !self->is_closing)
        take_datagram(self, (const uint8_t *)buffer->base, (size_t)count);
}

void tt_node_links_watch_datagrams(struct tt_node_links *self, bool watches) {
    if (self->is_blind == !watches || !self->has_handles)
        return;
    self->is_blind = !watches;
    if (watches)
        (void)uv_udp_recv_start(&self->datagrams, on_datagram_room, on_datagram);
    else
        uv_udp_recv_stop(&self->datagrams);
}

void tt_node_links_read_datagrams(struct tt_node_links *self) {
    uint8_t bytes[READ_AT_ONCE][sizeof(self->datagram)];
    struct iovec parts[READ_AT_ONCE];
    struct mmsghdr messages[READ_AT_ONCE];
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&self->datagrams, &fd) < 0)
        return;
    int count;
    do {
        for (int32_t i = 0; i < READ_AT_ONCE; i++) {
            parts[i] = (struct iovec){.iov_base = bytes[i], .iov_len = sizeof(bytes[i])};
            messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &parts[i], .msg_iovlen = 1}};
        }
        count = recvmmsg(fd, messages, READ_AT_ONCE, MSG_DONTWAIT, NULL);
        for (int i = 0; i < count && !self->is_closing; i++)
            if (!(messages[i].msg_hdr.msg_flags & MSG_TRUNC))
                take_datagram(self, bytes[i], messages[i].msg_len);
    } while (count == READ_AT_ONCE && !self->is_closing);
}

/* ---- opening and closing ---- */

static enum tt_err listen_at(struct tt_node_links *self, struct tt_error *why) {
    const struct tt_cluster_place *place = place_of(self, self->options.number);
    const struct sockaddr *address =
        (const struct sockaddr *)&self->peers[self->options.number].address;
    int result = uv_tcp_bind(&self->listener, address, 0);
    if (result == 0)
        result = uv_listen((uv_stream_t *)&self->listener, 128, on_connection);
    if (result == 0)
        result = uv_udp_bind(&self->datagrams, address, 0);
    if (result == 0)
        result = uv_udp_recv_start(&self->datagrams, on_datagram_room, on_datagram);
    return result < 0 ? tt_fail(TT_ERR_IO, why, "node %s cannot listen on %s:%d: %s", place->name,
                                place->host, place->tcp_port, uv_strerror(result))
                      : TT_OK;
}

enum tt_err tt_node_links_open(struct tt_node_links *self, uv_loop_t *loop,
                               const struct tt_node_links_options *options, struct tt_error *why) {
    *self = (struct tt_node_links){.options = *options, .loop = loop};
    tt_assert(options->file->count > 0);
    self->peers = calloc((size_t)options->file->count, sizeof(*self->peers));
    if (!self->peers || tt_datagram_tagger_init(&self->tagger))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    uv_tcp_init(loop, &self->listener);
    uv_udp_init(loop, &self->datagrams);
    uv_timer_init(loop, &self->timer);
    self->has_handles = true;
    self->listener.data = self->datagrams.data = self->timer.data = self;
    for (int32_t i = 0; i < options->file->count; i++)
        self->peers[i].is_named =
            !tt_cluster_place_read(&options->file->places[i], &self->peers[i].address);
    socklen_t bytes;
    enum tt_err err = tt_cluster_place_resolve(place_of(self, options->number),
                                               &self->peers[options->number].address, &bytes, why);
    if (!err)
        err = listen_at(self, why);
    if (!err)
        uv_timer_start(&self->timer, on_tick, 0, TICK_MS);
    return err;
}

void tt_node_links_close(struct tt_node_links *self) {
    if (!self->has_handles)
        return;
    self->is_closing = true;
    while (self->connections)
        tt_connection_close(self->connections);
    for (int32_t i = 0; i < self->options.file->count; i++) {
        tt_node_lookup_cancel(self->peers[i].lookup);
        self->peers[i].lookup = NULL;
        tt_peer_probe_cancel(self->peers[i].probe);
        self->peers[i].probe = NULL;
        self->peers[i].link = self->peers[i].dialing = NULL;
    }
    uv_close((uv_handle_t *)&self->listener, NULL);
    uv_close((uv_handle_t *)&self->datagrams, NULL);
    uv_close((uv_handle_t *)&self->timer, NULL);
    self->has_handles = false;
}

void tt_node_links_fini(struct tt_node_links *self) {
    tt_published_view_fini(&self->tls_view);
    tt_datagram_tagger_fini(&self->tagger);
    free(self->peers);
    self->peers = NULL;
}

const uint8_t *tt_node_links_session(const struct tt_node_links *self, uint16_t peer) {
    const struct tt_connection *link = self->peers[peer].link;
    return link ? link->handshake.session : NULL;
}

uint16_t tt_node_links_abilities(const struct tt_node_links *self, uint16_t peer) {
    const struct tt_connection *link = self->peers[peer].link;
    return link ? link->handshake.peer.abilities : 0;
}

bool tt_node_links_is_up(const struct tt_node_links *self, uint16_t peer) {
    return self->peers[peer].link != NULL;
}

uint8_t *tt_node_links_send(struct tt_node_links *self, uint16_t peer, const struct tt_frame *frame,
                            size_t payload_bytes) {
    struct tt_connection *link = self->peers[peer].link;
    size_t head = tt_frame_bytes(frame->count);
    if (!link)
        return NULL;
    uint8_t *room = tt_connection_room(link, head + payload_bytes);
    if (!room) {
        struct tt_error why;
        tt_fail(TT_ERR_NO_MEMORY, &why, "too much is waiting for this node, or out of memory");
        ended(self, link, 0, &why);
        return NULL;
    }
    tt_frame_write(frame, room);
    return room + head;
}

void tt_node_links_flush(struct tt_node_links *self) {
    for (struct tt_connection *c = self->connections, *next; c; c = next) {
        next = c->next;
        if (c->is_done)
            tt_connection_flush(c);
    }
}
