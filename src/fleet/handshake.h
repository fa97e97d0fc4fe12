/* How two nodes of a cluster make sure of each other before the first frame.
 *
 * The dialer sends HELLO, the listener checks it and answers with its own. Each then proves that it
 * has the cluster's key: a PROOF is an HMAC-SHA256 over both hellos, which contain random nonces,
 * and over the side that sends it. So neither a recorded nor a reflected proof is of use. A side
 * that does not accept the other says why (REFUSED) and closes. Both then share a session key for
 * datagrams.
 *
 * Accepted: the same key; release numbers that differ by at most one in the minor part; the same
 * description of the cluster. What models they have they tell each other later (fleet/
 * model_exchange.h). A visitor (`tutti cluster`) is no node: it has no description, but the key.
 * The key protects against strangers that cannot change packets under way; it does not encrypt.
 *
 * A message is 4 bytes "TTC1", u16 kind, u16 length of what follows, all little-endian. The reader
 * trusts nothing. No socket, no clock, no allocation. Implemented in handshake.c. */
#ifndef TT_FLEET_HANDSHAKE_H
#define TT_FLEET_HANDSHAKE_H

#include "base/err.h"
#include "cluster/cluster.h"

enum {
    TT_HANDSHAKE_NONCE_BYTES = 32,
    TT_HANDSHAKE_PROOF_BYTES = 32,
    TT_HANDSHAKE_HEAD_BYTES = 8,
    TT_HANDSHAKE_HELLO_BYTES = TT_HANDSHAKE_HEAD_BYTES + 32 + TT_HANDSHAKE_NONCE_BYTES,
    TT_HANDSHAKE_MAX_BYTES = TT_HANDSHAKE_HEAD_BYTES + 1024,
    TT_HANDSHAKE_KEY_BYTES = 256, /* the longest key */
};

struct tt_release {
    uint16_t major, minor;
};

/* What a node can do besides what its release says; unknown bits are ignored. */
enum { TT_ABILITY_REMOTE = 1 << 0 }; /* TT_FRAME_REMOTE */

struct tt_identity {
    struct tt_release release;
    uint16_t node; /* TT_CLUSTER_NO_NODE: a visitor */
    uint16_t abilities;
    uint64_t incarnation; /* grows with each life of the node */
    uint64_t cluster_digest;
};

struct tt_cluster_key {
    uint8_t bytes[TT_HANDSHAKE_KEY_BYTES];
    size_t count; /* 0: none */
};

enum tt_handshake_state {
    TT_HANDSHAKE_AWAITS_HELLO,
    TT_HANDSHAKE_AWAITS_PROOF,
    TT_HANDSHAKE_DONE,
};

struct tt_handshake {
    enum tt_handshake_state state;
    bool is_dialer;
    const struct tt_cluster_key *key;
    int32_t node_count; /* of the cluster: the peer's number is below it */
    uint16_t expected;  /* dialer: the node that it dialed; listener: TT_CLUSTER_NO_NODE, any */
    struct tt_identity own, peer;                /* peer: valid when DONE */
    uint8_t hellos[2][TT_HANDSHAKE_HELLO_BYTES]; /* the dialer's, the listener's */
    uint8_t session[TT_HANDSHAKE_PROOF_BYTES];   /* the key for datagrams; valid when DONE */
};

/* What a message is answered with. */
struct tt_handshake_reply {
    uint8_t bytes[TT_HANDSHAKE_MAX_BYTES];
    size_t count; /* 0: nothing */
};

/* "0.2.1" is {0, 2}. */
struct tt_release tt_release_parse(const char *version);

/* `key` is borrowed for life; `nonce`: random. The dialer sends the hello that is in *out_reply. */
void tt_handshake_begin(struct tt_handshake *self, const struct tt_identity *own, bool is_dialer,
                        uint16_t expected, int32_t node_count, const struct tt_cluster_key *key,
                        const uint8_t nonce[TT_HANDSHAKE_NONCE_BYTES],
                        struct tt_handshake_reply *out_reply);
/* Reads the first message of `bytes`. *out_used: its bytes; 0: more bytes are needed. *out_reply is
 * to be sent, also on an error, after which the connection is closed. Errors: INVALID (no message,
 * or the peer is not accepted), UNAVAILABLE (the peer refused; `why` has its reason). */
TT_MUST_CHECK enum tt_err tt_handshake_read(struct tt_handshake *self, const uint8_t *bytes,
                                            size_t length, size_t *out_used,
                                            struct tt_handshake_reply *out_reply,
                                            struct tt_error *why);

/* The first TT_DATAGRAM_TAG_BYTES of the HMAC of `bytes` under the session's key. */
enum { TT_DATAGRAM_TAG_BYTES = 16 };
void tt_datagram_tag(const uint8_t session[TT_HANDSHAKE_PROOF_BYTES], const uint8_t *bytes,
                     size_t count, uint8_t out_tag[TT_DATAGRAM_TAG_BYTES]);
/* The same, without an allocation for each tag. Zero-initialized; one thread. */
struct tt_datagram_tagger {
    struct evp_mac_ctx_st *mac;
};
TT_MUST_CHECK enum tt_err tt_datagram_tagger_init(struct tt_datagram_tagger *self);
void tt_datagram_tagger_fini(struct tt_datagram_tagger *self);
void tt_datagram_tagger_sign(struct tt_datagram_tagger *self,
                             const uint8_t session[TT_HANDSHAKE_PROOF_BYTES], const uint8_t *bytes,
                             size_t count, uint8_t out_tag[TT_DATAGRAM_TAG_BYTES]);
/* Compares in a time that does not depend on the content. */
bool tt_datagram_tag_equals(const uint8_t *a, const uint8_t *b);

/* Reads a key: the bytes of the file without white space at its end. Errors: NOT_FOUND, IO, INVALID
 * (empty, too long, or others may read the file; a group may read that of root, if this process is
 * not root's). */
TT_MUST_CHECK enum tt_err tt_cluster_key_read(const char *path, struct tt_cluster_key *out_key,
                                              struct tt_error *why);

#endif
