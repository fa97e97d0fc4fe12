/* The connections of one node to the others: TCP for frames, UDP for beats and opinions.
 *
 * Life of a link:
 *  1. The node with the higher number dials the one with the lower, until that answers.
 *  2. After the handshake (fleet/handshake.h) it is UP, which is reported to the owner.
 *  3. Frames come and go.
 *  4. It is CLOSED (the peer closed it, or its process ended) or LOST (the network gave up), which
 *     is reported once. What a reset means is found by a dial (fleet/peer_probe.h).
 * A new connection of the same node, of a later life, replaces the former one.
 *
 * A node whose place has a name instead of an address need not be known to DNS when this one
 * starts, and may return elsewhere: it is looked up before each dial (fleet/node_lookup.h). One
 * that dials is where its connection comes from.
 *
 * Frames that are sent during a turn of the loop are collected per peer and written together by
 * _flush. What is sent to a peer without a link is dropped: roles learn of it by its link.
 *
 * Beats are datagrams, since a lost segment would hold back all that follow it. A datagram has the
 * sender, a counter and a tag under the key of the session. One that is older than another of its
 * session, or whose tag is wrong, is ignored.
 *
 * A visitor (`tutti cluster`) sends lines of text instead of frames and reads texts.
 *
 * One thread, that of the loop. Implemented in node_links.c (links) and node_connection.c (bytes).
 */
#ifndef TT_FLEET_NODE_LINKS_H
#define TT_FLEET_NODE_LINKS_H

#include "base/text.h"
#include "cluster/cluster.h"
#include "fleet/cluster_file.h"
#include "fleet/frame_stream.h"
#include "fleet/handshake.h"
#include "fleet/live_tls.h"

#include <uv.h>

struct tt_log;
struct tt_connection;
struct tt_node_lookup;
struct tt_peer_probe;

/* What the owner is notified of. None may call _close. */
struct tt_node_links_events {
    void (*linked)(void *context, uint16_t peer, enum tt_link link);
    void (*received)(void *context, uint16_t peer, const struct tt_received *received);
    /* A line of a visitor; the answer is appended to `answer`. */
    void (*visited)(void *context, const char *line, struct tt_text *answer);
};

enum { TT_NODE_READ_BYTES = 65536 };

struct tt_node_links_options {
    const struct tt_cluster_file *file; /* borrowed, as all of these */
    uint16_t number;                    /* of this node */
    struct tt_identity identity;
    const struct tt_cluster_key *key;
    struct tt_live_tls *tls;
    struct tt_log *log;
    size_t limit_bytes; /* of a frame with its payload */
    const struct tt_node_links_events *events;
    void *context;
};

struct tt_node_peer {
    struct sockaddr_storage address; /* where it is, as far as is known; valid with a link */
    struct tt_node_lookup *lookup;   /* that will set it; NULL: none */
    struct tt_connection *link;      /* UP; NULL: none */
    struct tt_peer_probe *probe;     /* after a reset, whose reason it finds; NULL: none */
    struct tt_connection *dialing;   /* NULL: none */
    uint64_t incarnation;            /* of the latest link */
    uint64_t sent, seen;             /* counters of datagrams of this link */
    uint64_t dial_at_ms;
    bool is_named;    /* its host has no fixed address */
    bool was_refused; /* the reason is in the log already */
};

struct tt_node_links {
    struct tt_node_links_options options;
    struct tt_published_view tls_view;
    uv_loop_t *loop;
    uv_tcp_t listener;
    uv_udp_t datagrams;
    uv_timer_t timer;           /* dials, and ends handshakes that take too long */
    struct tt_node_peer *peers; /* [file->count] */
    struct tt_connection *connections;
    struct tt_frame_record records[TT_FRAME_MAX_RECORDS];
    struct tt_datagram_tagger tagger;
    uint8_t datagram[128];
    uint8_t sealed[TT_NODE_READ_BYTES];     /* what a connection with TLS received */
    bool has_handles, is_closing, is_blind; /* is_blind: it does not watch datagrams */
    int64_t bad_datagrams;
};

/* Listens, and begins to dial. On an error, _close is still to be called. Errors: IO (address in
 * use), INVALID (host), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_node_links_open(struct tt_node_links *self, uv_loop_t *loop,
                                             const struct tt_node_links_options *options,
                                             struct tt_error *why);
/* Closes everything without reports. The handles are free after the loop has run once more. */
void tt_node_links_close(struct tt_node_links *self);
/* After that. */
void tt_node_links_fini(struct tt_node_links *self);

/* The key of the session with the peer (fleet/handshake.h); NULL: there is no link. */
const uint8_t *tt_node_links_session(const struct tt_node_links *self, uint16_t peer);
/* Of the peer, TT_ABILITY_...; 0: none, or there is no link. */
uint16_t tt_node_links_abilities(const struct tt_node_links *self, uint16_t peer);
bool tt_node_links_is_up(const struct tt_node_links *self, uint16_t peer);
/* Appends the frame to what goes to `peer`, and returns where the payload of `payload_bytes` must
 * be written; NULL: there is no link, or no memory (the link is then closed). */
uint8_t *tt_node_links_send(struct tt_node_links *self, uint16_t peer, const struct tt_frame *frame,
                            size_t payload_bytes);
/* Sends the frame, which has at most one record, as a datagram, if there is a link. */
void tt_node_links_send_datagram(struct tt_node_links *self, uint16_t peer,
                                 const struct tt_frame *frame);
/* Datagrams are read when they come (the default), or when _read is called. */
void tt_node_links_watch_datagrams(struct tt_node_links *self, bool watches);
void tt_node_links_read_datagrams(struct tt_node_links *self);
/* Writes what was collected. */
void tt_node_links_flush(struct tt_node_links *self);

#endif
