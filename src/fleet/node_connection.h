/* One TCP connection of a node: TLS if the cluster has it, the handshake, and the bytes in both
 * directions.
 *
 * Life: made by a dial or an accept -> the handshake -> frames, or a visitor's lines -> closed. It
 * is freed when libuv has let go of its handle. Used by fleet/node_links.c only. */
#ifndef TT_FLEET_NODE_CONNECTION_H
#define TT_FLEET_NODE_CONNECTION_H

#include "fleet/node_links.h"
#include "net/tls/tls_session.h"

struct tt_connection;

/* What the owner of connections is notified of. */
struct tt_connection_events {
    /* The handshake is done. False: the connection was closed. */
    bool (*welcome)(struct tt_node_links *owner, struct tt_connection *connection);
    /* It ended: `status` is libuv's, UV_EOF among them; `why` NULL: only the status is known. The
     * owner closes it. */
    void (*ended)(struct tt_node_links *owner, struct tt_connection *connection, int status,
                  const struct tt_error *why);
};

struct tt_connection {
    uv_tcp_t tcp;
    uv_connect_t connecting;
    uv_write_t writing;
    struct tt_node_links *links;
    const struct tt_connection_events *events;
    struct tt_connection *next, **at; /* in links->connections */
    uint16_t peer;                    /* dialer: from the start; else when the handshake is done */
    bool is_done, is_visitor, is_writing, is_closing;
    uint64_t begun_ms;
    struct tt_handshake handshake;
    struct tt_frame_stream in;
    uint8_t *out, *flying; /* collected; being written */
    int64_t out_capacity, flying_capacity;
    size_t out_bytes;
    struct tt_tls_session *tls;   /* NULL: the bytes go as they are */
    struct tt_text sealed_flying; /* the same as `flying`, where it is encrypted */
};

/* NULL: out of memory. */
struct tt_connection *tt_connection_new(struct tt_node_links *links,
                                        const struct tt_connection_events *events, uint16_t peer);
/* Sends the first message of the handshake, and reads. */
void tt_connection_begin(struct tt_connection *self, bool is_dialer);
/* Room for `bytes` more that go out with the next flush; NULL: out of memory, or it is closing. */
uint8_t *tt_connection_room(struct tt_connection *self, size_t bytes);
void tt_connection_flush(struct tt_connection *self);
/* Without a report. */
void tt_connection_close(struct tt_connection *self);

#endif
