#include "fleet/handshake.h"

#include "base/text.h"
#include "base/varint.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC = 0x31435454 }; /* "TTC1" */
enum kind { KIND_HELLO = 1, KIND_PROOF, KIND_REFUSED, KINDS };

enum { MIN_KEY_BYTES = 16, LABEL_BYTES = 16 };

/* ---- keyed digests ---- */

struct part {
    const void *bytes;
    size_t count;
};

static void authenticate(const uint8_t *key, size_t key_bytes, const char *label,
                         const struct part *parts, size_t count,
                         uint8_t out[TT_HANDSHAKE_PROOF_BYTES]) {
    uint8_t text[LABEL_BYTES + 2 * TT_HANDSHAKE_HELLO_BYTES];
    size_t length = 0;
    for (; label[length]; length++) {
        tt_assert(length < LABEL_BYTES);
        text[length] = (uint8_t)label[length];
    }
    for (size_t i = 0; i < count; i++) {
        tt_assert(length + parts[i].count <= sizeof(text));
        memcpy(text + length, parts[i].bytes, parts[i].count);
        length += parts[i].count;
    }
    unsigned written = 0;
    const uint8_t *digest = HMAC(EVP_sha256(), key, (int)key_bytes, text, length, out, &written);
    tt_assert(digest != NULL); /* fails only without memory or without SHA-256 */
    tt_assert(written == TT_HANDSHAKE_PROOF_BYTES);
}

static void over_hellos(const struct tt_handshake *self, const char *label,
                        uint8_t out[TT_HANDSHAKE_PROOF_BYTES]) {
    const struct part parts[] = {{self->hellos[0], TT_HANDSHAKE_HELLO_BYTES},
                                 {self->hellos[1], TT_HANDSHAKE_HELLO_BYTES}};
    authenticate(self->key->bytes, self->key->count, label, parts, TT_COUNT(parts), out);
}

void tt_datagram_tag(const uint8_t session[TT_HANDSHAKE_PROOF_BYTES], const uint8_t *bytes,
                     size_t count, uint8_t out_tag[TT_DATAGRAM_TAG_BYTES]) {
    uint8_t digest[TT_HANDSHAKE_PROOF_BYTES];
    const struct part part = {bytes, count};
    authenticate(session, TT_HANDSHAKE_PROOF_BYTES, "", &part, 1, digest);
    memcpy(out_tag, digest, TT_DATAGRAM_TAG_BYTES);
}

enum tt_err tt_datagram_tagger_init(struct tt_datagram_tagger *self) {
    char digest[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end()};
    EVP_MAC *kind = EVP_MAC_fetch(NULL, "HMAC", NULL);
    self->mac = kind ? EVP_MAC_CTX_new(kind) : NULL;
    EVP_MAC_free(kind);
    return self->mac && EVP_MAC_CTX_set_params(self->mac, parameters) ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_datagram_tagger_fini(struct tt_datagram_tagger *self) {
    EVP_MAC_CTX_free(self->mac);
    self->mac = NULL;
}

void tt_datagram_tagger_sign(struct tt_datagram_tagger *self,
                             const uint8_t session[TT_HANDSHAKE_PROOF_BYTES], const uint8_t *bytes,
                             size_t count, uint8_t out_tag[TT_DATAGRAM_TAG_BYTES]) {
    uint8_t digest[TT_HANDSHAKE_PROOF_BYTES];
    size_t written = 0;
    bool is_signed = EVP_MAC_init(self->mac, session, TT_HANDSHAKE_PROOF_BYTES, NULL) &&
                     EVP_MAC_update(self->mac, bytes, count) &&
                     EVP_MAC_final(self->mac, digest, &written, sizeof(digest));
    tt_assert(is_signed && written == sizeof(digest)); /* fails only without memory */
    memcpy(out_tag, digest, TT_DATAGRAM_TAG_BYTES);
}

bool tt_datagram_tag_equals(const uint8_t *a, const uint8_t *b) {
    return CRYPTO_memcmp(a, b, TT_DATAGRAM_TAG_BYTES) == 0;
}

/* ---- messages ---- */

struct tt_release tt_release_parse(const char *version) {
    char *end;
    unsigned long major = strtoul(version, &end, 10);
    unsigned long minor = *end == '.' ? strtoul(end + 1, &end, 10) : 0;
    return (struct tt_release){.major = (uint16_t)major, .minor = (uint16_t)minor};
}

static void put_u16(uint8_t *to, uint16_t value) {
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

static uint16_t get_u16(const uint8_t *from) { return (uint16_t)(from[0] | from[1] << 8); }

static void put_head(uint8_t *to, enum kind kind, size_t length) {
    tt_put_u32(to, MAGIC);
    put_u16(to + 4, (uint16_t)kind);
    put_u16(to + 6, (uint16_t)length);
}

static void put_hello(uint8_t *to, const struct tt_identity *own, const uint8_t *nonce) {
    put_head(to, KIND_HELLO, TT_HANDSHAKE_HELLO_BYTES - TT_HANDSHAKE_HEAD_BYTES);
    to += TT_HANDSHAKE_HEAD_BYTES;
    put_u16(to, own->release.major);
    put_u16(to + 2, own->release.minor);
    put_u16(to + 4, own->node);
    put_u16(to + 6, own->abilities);
    tt_put_u64(to + 8, own->incarnation);
    tt_put_u64(to + 16, own->cluster_digest);
    tt_put_u64(to + 24, 0);
    memcpy(to + 32, nonce, TT_HANDSHAKE_NONCE_BYTES);
}

static struct tt_identity get_hello(const uint8_t *from) {
    from += TT_HANDSHAKE_HEAD_BYTES;
    return (struct tt_identity){.release = {.major = get_u16(from), .minor = get_u16(from + 2)},
                                .node = get_u16(from + 4),
                                .abilities = get_u16(from + 6),
                                .incarnation = tt_get_u64(from + 8),
                                .cluster_digest = tt_get_u64(from + 16)};
}

/* The peer reads why it is not accepted, and so does this side's log. */
static enum tt_err refuse(struct tt_handshake_reply *reply, const char *text,
                          struct tt_error *why) {
    size_t length = strlen(text);
    tt_assert(length <= TT_HANDSHAKE_MAX_BYTES - TT_HANDSHAKE_HEAD_BYTES);
    put_head(reply->bytes, KIND_REFUSED, length);
    memcpy(reply->bytes + TT_HANDSHAKE_HEAD_BYTES, text, length);
    reply->count = TT_HANDSHAKE_HEAD_BYTES + length;
    return tt_fail(TT_ERR_INVALID, why, "%s", text);
}

static void put_proof(const struct tt_handshake *self, bool is_dialer, uint8_t *to) {
    put_head(to, KIND_PROOF, TT_HANDSHAKE_PROOF_BYTES);
    over_hellos(self, is_dialer ? "dialer" : "listener", to + TT_HANDSHAKE_HEAD_BYTES);
}

/* ---- what is accepted ---- */

static bool releases_agree(struct tt_release a, struct tt_release b) {
    int skew = (int)a.minor - (int)b.minor;
    return a.major == b.major && skew >= -1 && skew <= 1;
}

static enum tt_err check_hello(struct tt_handshake *self, struct tt_handshake_reply *reply,
                               struct tt_error *why) {
    const struct tt_identity *own = &self->own, *peer = &self->peer;
    char text[600];
    bool is_visit = own->node == TT_CLUSTER_NO_NODE || peer->node == TT_CLUSTER_NO_NODE;
    if (!releases_agree(own->release, peer->release)) {
        snprintf(text, sizeof(text),
                 "release %d.%d does not work with release %d.%d of the other side; releases of a "
                 "cluster may be one minor number apart",
                 own->release.major, own->release.minor, peer->release.major, peer->release.minor);
        return refuse(reply, text, why);
    }
    bool is_known = peer->node == TT_CLUSTER_NO_NODE
                        ? !self->is_dialer
                        : peer->node < self->node_count && peer->node != own->node;
    if (!is_known || (self->expected != TT_CLUSTER_NO_NODE && peer->node != self->expected)) {
        snprintf(text, sizeof(text),
                 "node %d is not expected here; do both sides have the same "
                 "file of the cluster, and is this address that node's?",
                 peer->node);
        return refuse(reply, text, why);
    }
    if (!is_visit && own->cluster_digest != peer->cluster_digest)
        return refuse(reply,
                      "the two sides have different files of the cluster; all nodes need the same "
                      "nodes, order and times",
                      why);
    return TT_OK;
}

static enum tt_err on_hello(struct tt_handshake *self, const uint8_t *bytes, size_t length,
                            struct tt_handshake_reply *reply, struct tt_error *why) {
    if (length != TT_HANDSHAKE_HELLO_BYTES)
        return tt_fail(TT_ERR_INVALID, why, "a hello of %d bytes; it would have %d", (int)length,
                       TT_HANDSHAKE_HELLO_BYTES);
    memcpy(self->hellos[!!self->is_dialer], bytes, length);
    self->peer = get_hello(bytes);
    enum tt_err err = check_hello(self, reply, why);
    if (err)
        return err;
    if (self->is_dialer) {
        put_proof(self, true, reply->bytes);
        reply->count = TT_HANDSHAKE_HEAD_BYTES + TT_HANDSHAKE_PROOF_BYTES;
    } else {
        memcpy(reply->bytes, self->hellos[1], TT_HANDSHAKE_HELLO_BYTES);
        reply->count = TT_HANDSHAKE_HELLO_BYTES;
    }
    self->state = TT_HANDSHAKE_AWAITS_PROOF;
    return TT_OK;
}

static enum tt_err on_proof(struct tt_handshake *self, const uint8_t *bytes, size_t length,
                            struct tt_handshake_reply *reply, struct tt_error *why) {
    uint8_t expected[TT_HANDSHAKE_HEAD_BYTES + TT_HANDSHAKE_PROOF_BYTES];
    put_proof(self, !self->is_dialer, expected);
    if (length != sizeof(expected) || CRYPTO_memcmp(bytes, expected, sizeof(expected)) != 0)
        return refuse(reply,
                      "the other side has another key; all nodes need the same "
                      "--cluster-key file",
                      why);
    if (!self->is_dialer) {
        put_proof(self, false, reply->bytes);
        reply->count = sizeof(expected);
    }
    over_hellos(self, "datagrams", self->session);
    self->state = TT_HANDSHAKE_DONE;
    return TT_OK;
}

static enum tt_err on_refused(const uint8_t *bytes, size_t length, struct tt_error *why) {
    char text[sizeof(why->text)];
    size_t count = length - TT_HANDSHAKE_HEAD_BYTES;
    if (count > 400)
        count = 400;
    for (size_t i = 0; i < count; i++) {
        char c = (char)bytes[TT_HANDSHAKE_HEAD_BYTES + i];
        text[i] = c >= ' ' && c <= '~' ? c : '?';
    }
    text[count] = '\0';
    return tt_fail(TT_ERR_UNAVAILABLE, why, "refused by the other side: %s", text);
}

void tt_handshake_begin(struct tt_handshake *self, const struct tt_identity *own, bool is_dialer,
                        uint16_t expected, int32_t node_count, const struct tt_cluster_key *key,
                        const uint8_t nonce[TT_HANDSHAKE_NONCE_BYTES],
                        struct tt_handshake_reply *out_reply) {
    *self = (struct tt_handshake){.is_dialer = is_dialer,
                                  .key = key,
                                  .expected = expected,
                                  .node_count = node_count,
                                  .own = *own};
    uint8_t *hello = self->hellos[!is_dialer];
    put_hello(hello, own, nonce);
    out_reply->count = 0;
    if (is_dialer) {
        memcpy(out_reply->bytes, hello, TT_HANDSHAKE_HELLO_BYTES);
        out_reply->count = TT_HANDSHAKE_HELLO_BYTES;
    }
}

enum tt_err tt_handshake_read(struct tt_handshake *self, const uint8_t *bytes, size_t length,
                              size_t *out_used, struct tt_handshake_reply *out_reply,
                              struct tt_error *why) {
    tt_assert(self->state != TT_HANDSHAKE_DONE);
    *out_used = 0;
    out_reply->count = 0;
    if (length < TT_HANDSHAKE_HEAD_BYTES)
        return TT_OK;
    size_t total = (size_t)TT_HANDSHAKE_HEAD_BYTES + get_u16(bytes + 6);
    if (tt_get_u32(bytes) != MAGIC || total > TT_HANDSHAKE_MAX_BYTES)
        return tt_fail(TT_ERR_INVALID, why, "the other side does not speak this protocol");
    if (length < total)
        return TT_OK;
    uint16_t kind = get_u16(bytes + 4);
    enum tt_err err;
    if (kind == KIND_REFUSED)
        err = on_refused(bytes, total, why);
    else if (kind == KIND_HELLO && self->state == TT_HANDSHAKE_AWAITS_HELLO)
        err = on_hello(self, bytes, total, out_reply, why);
    else if (kind == KIND_PROOF && self->state == TT_HANDSHAKE_AWAITS_PROOF)
        err = on_proof(self, bytes, total, out_reply, why);
    else
        err = tt_fail(TT_ERR_INVALID, why, "a message of kind %d; expected was %d", kind,
                      self->state == TT_HANDSHAKE_AWAITS_HELLO ? KIND_HELLO : KIND_PROOF);
    if (!err)
        *out_used = total;
    return err;
}

/* ---- the key ---- */

/* Only its owner may read it. A secret that root mounts for the group of another user, as container
 * platforms do, is no less secret. */
static bool is_secret(const struct stat *status) {
    bool is_mounted = status->st_uid == 0 && geteuid() != 0;
    mode_t group = is_mounted ? S_IWGRP | S_IXGRP : S_IRWXG;
    return (status->st_mode & (group | S_IRWXO)) == 0;
}

enum tt_err tt_cluster_key_read(const char *path, struct tt_cluster_key *out_key,
                                struct tt_error *why) {
    struct stat status;
    if (stat(path, &status) == 0 && !is_secret(&status))
        return tt_fail(TT_ERR_INVALID, why, "%s: other users may read this key; run: chmod 600 %s",
                       path, path);
    struct tt_text text;
    tt_text_init(&text);
    enum tt_err err = tt_text_read_file(path, 4096, &text, why);
    size_t count = text.length;
    while (!err && count > 0 && strchr(" \t\r\n", text.bytes[count - 1]))
        count--;
    if (!err && (count < MIN_KEY_BYTES || count > TT_HANDSHAKE_KEY_BYTES))
        err = tt_fail(TT_ERR_INVALID, why, "%s: the key has %d bytes; it must have %d to %d", path,
                      (int)count, MIN_KEY_BYTES, TT_HANDSHAKE_KEY_BYTES);
    if (!err) {
        memcpy(out_key->bytes, text.bytes, count);
        out_key->count = count;
    }
    if (text.bytes)
        OPENSSL_cleanse(text.bytes, text.length);
    tt_text_fini(&text);
    return err;
}
