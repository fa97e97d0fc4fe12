/* The handshake of two nodes: what is accepted, what is refused and why, and bytes of any kind. */
#include "base/prng.h"
#include "fleet/handshake.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { NODES = 5, TRIALS = 20000 };

static const struct tt_cluster_key key = {.bytes = "0123456789abcdef", .count = 16};
static const struct tt_identity dialer = {
    .release = {0, 2}, .node = 3, .incarnation = 7, .cluster_digest = 11};
static const struct tt_identity listener = {
    .release = {0, 2}, .node = 1, .incarnation = 8, .cluster_digest = 11};

struct pair {
    struct tt_handshake sides[2]; /* the dialer, the listener */
    enum tt_err errs[2];
    struct tt_error whys[2];
};

/* Plays the messages of both sides to the end. */
static void play(struct pair *self, const struct tt_identity *from, const struct tt_identity *to,
                 const struct tt_cluster_key *from_key, const struct tt_cluster_key *to_key) {
    static const uint8_t nonces[2][TT_HANDSHAKE_NONCE_BYTES] = {"one", "two"};
    struct tt_handshake_reply reply, next;
    *self = (struct pair){.errs = {TT_OK, TT_OK}};
    tt_handshake_begin(&self->sides[1], to, false, TT_CLUSTER_NO_NODE, NODES, to_key, nonces[1],
                       &reply);
    assert_int_equal(reply.count, 0);
    tt_handshake_begin(&self->sides[0], from, true, 1, NODES, from_key, nonces[0], &reply);
    for (int32_t side = 1; reply.count > 0; side = !side, reply = next) {
        if (self->errs[side] || self->sides[side].state == TT_HANDSHAKE_DONE)
            return; /* it has closed, or takes this as frames */
        size_t used;
        assert_int_equal(tt_handshake_read(&self->sides[side], reply.bytes, reply.count - 1, &used,
                                           &next, &self->whys[side]),
                         TT_OK);
        assert_int_equal(used, 0);
        self->errs[side] = tt_handshake_read(&self->sides[side], reply.bytes, reply.count, &used,
                                             &next, &self->whys[side]);
        assert_int_equal(used, self->errs[side] ? 0 : reply.count);
    }
}

static bool is_done(const struct pair *self) {
    return self->sides[0].state == TT_HANDSHAKE_DONE && self->sides[1].state == TT_HANDSHAKE_DONE;
}

static void equal_nodes_meet(void **state) {
    (void)state;
    struct pair pair;
    play(&pair, &dialer, &listener, &key, &key);
    assert_true(is_done(&pair));
    assert_int_equal(pair.sides[0].peer.node, 1);
    assert_int_equal(pair.sides[0].peer.incarnation, 8);
    assert_int_equal(pair.sides[1].peer.node, 3);
    assert_memory_equal(pair.sides[0].session, pair.sides[1].session, TT_HANDSHAKE_PROOF_BYTES);
    struct tt_cluster_key none = {.count = 0};
    play(&pair, &dialer, &listener, &none, &none);
    assert_true(is_done(&pair));
}

/* Neither side is done; the refusing side has the reason, and the other reads it. */
static void assert_refused(const struct pair *self, const char *reason) {
    assert_false(is_done(self));
    bool is_said = false, is_heard = false;
    for (int32_t i = 0; i < 2; i++) {
        is_said |= self->errs[i] == TT_ERR_INVALID && strstr(self->whys[i].text, reason);
        is_heard |= self->errs[i] == TT_ERR_UNAVAILABLE && strstr(self->whys[i].text, reason) &&
                    strstr(self->whys[i].text, "refused by the other side");
    }
    if (!is_said || !is_heard)
        fail_msg("'%s' / '%s'", self->whys[0].text, self->whys[1].text);
}

static void another_key_is_refused(void **state) {
    (void)state;
    struct pair pair;
    struct tt_cluster_key other = key, none = {.count = 0};
    other.bytes[15] ^= 1;
    play(&pair, &dialer, &listener, &other, &key);
    assert_refused(&pair, "another key");
    play(&pair, &dialer, &listener, &none, &key);
    assert_refused(&pair, "another key");
    assert_int_not_equal(pair.sides[1].state, TT_HANDSHAKE_DONE);
}

static void releases_may_be_one_apart(void **state) {
    (void)state;
    struct pair pair;
    struct tt_identity other = dialer;
    for (uint16_t minor = 1; minor <= 3; minor++) {
        other.release.minor = minor;
        play(&pair, &other, &listener, &key, &key);
        assert_true(is_done(&pair));
    }
    other.release.minor = 4;
    play(&pair, &other, &listener, &key, &key);
    assert_refused(&pair, "release 0.2 does not work with release 0.4");
    other.release = (struct tt_release){1, 2};
    play(&pair, &other, &listener, &key, &key);
    assert_refused(&pair, "release 0.2 does not work with release 1.2");
    struct tt_release parsed = tt_release_parse("12.34.5");
    assert_int_equal(parsed.major, 12);
    assert_int_equal(parsed.minor, 34);
}

static void other_clusters_are_refused(void **state) {
    (void)state;
    struct pair pair;
    struct tt_identity other = dialer;
    other.cluster_digest++;
    play(&pair, &other, &listener, &key, &key);
    assert_refused(&pair, "different files of the cluster");
    other = dialer;
    other.node = NODES;
    play(&pair, &other, &listener, &key, &key);
    assert_refused(&pair, "node 5 is not expected here");
    other = listener; /* the dialer expects node 1 */
    other.node = 2;
    play(&pair, &dialer, &other, &key, &key);
    assert_refused(&pair, "node 2 is not expected here");
}

static void a_visitor_needs_the_key_only(void **state) {
    (void)state;
    struct pair pair;
    struct tt_identity visitor = {.release = {0, 2}, .node = TT_CLUSTER_NO_NODE};
    play(&pair, &visitor, &listener, &key, &key);
    assert_true(is_done(&pair));
    assert_int_equal(pair.sides[1].peer.node, TT_CLUSTER_NO_NODE);
    struct tt_cluster_key none = {.count = 0};
    play(&pair, &visitor, &listener, &none, &key);
    assert_refused(&pair, "another key");
}

/* A proof that was seen is worth nothing later, and nothing to the side that sent it. */
static void proofs_are_not_reused(void **state) {
    (void)state;
    static const uint8_t nonce[TT_HANDSHAKE_NONCE_BYTES] = "three";
    struct pair pair;
    play(&pair, &dialer, &listener, &key, &key);
    struct tt_handshake other;
    struct tt_handshake_reply hello, reply;
    struct tt_error why;
    size_t used;
    tt_handshake_begin(&other, &listener, false, TT_CLUSTER_NO_NODE, NODES, &key, nonce, &hello);
    assert_int_equal(tt_handshake_read(&other, pair.sides[0].hellos[0], TT_HANDSHAKE_HELLO_BYTES,
                                       &used, &reply, &why),
                     TT_OK);
    /* The dialer's proof of the first meeting. */
    struct tt_handshake again;
    static const uint8_t first[TT_HANDSHAKE_NONCE_BYTES] = "one";
    struct tt_handshake_reply proof;
    tt_handshake_begin(&again, &dialer, true, 1, NODES, &key, first, &hello);
    assert_int_equal(tt_handshake_read(&again, pair.sides[1].hellos[1], TT_HANDSHAKE_HELLO_BYTES,
                                       &used, &proof, &why),
                     TT_OK);
    assert_int_equal(tt_handshake_read(&other, proof.bytes, proof.count, &used, &reply, &why),
                     TT_ERR_INVALID);
    /* Its own proof, sent back. */
    assert_int_equal(tt_handshake_read(&again, proof.bytes, proof.count, &used, &reply, &why),
                     TT_ERR_INVALID);
}

static void any_bytes_do_no_harm(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    static const uint8_t nonce[TT_HANDSHAKE_NONCE_BYTES] = "x";
    struct tt_handshake_reply hello, reply;
    struct tt_handshake from, to;
    struct tt_error why;
    for (int32_t i = 0; i < TRIALS; i++) {
        size_t used;
        tt_handshake_begin(&from, &dialer, true, 1, NODES, &key, nonce, &hello);
        tt_handshake_begin(&to, &listener, false, TT_CLUSTER_NO_NODE, NODES, &key, nonce, &reply);
        uint64_t flips = tt_prng_below(&prng, 4);
        for (uint64_t f = 0; f < flips; f++)
            hello.bytes[tt_prng_below(&prng, hello.count)] ^= (uint8_t)tt_prng_next(&prng);
        size_t length = tt_prng_below(&prng, hello.count + 1);
        enum tt_err err = tt_handshake_read(&to, hello.bytes, length, &used, &reply, &why);
        assert_true(err == TT_OK || err == TT_ERR_INVALID || err == TT_ERR_UNAVAILABLE);
        assert_true(used <= length);
        assert_int_not_equal(to.state, TT_HANDSHAKE_DONE);
    }
}

static void keys_are_read_with_care(void **state) {
    (void)state;
    char path[] = "/tmp/tutti-key-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    struct tt_cluster_key read_key;
    struct tt_error why;
    assert_int_equal(tt_cluster_key_read(path, &read_key, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "must have 16 to 256"));
    assert_int_equal(write(fd, "0123456789abcdef\n", 17), 17);
    assert_int_equal(tt_cluster_key_read(path, &read_key, &why), TT_OK);
    assert_int_equal(read_key.count, 16);
    assert_memory_equal(read_key.bytes, key.bytes, 16);
    assert_int_equal(fchmod(fd, 0640), 0);
    assert_int_equal(tt_cluster_key_read(path, &read_key, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "chmod 600"));
    close(fd);
    unlink(path);
    assert_int_equal(tt_cluster_key_read(path, &read_key, &why), TT_ERR_NOT_FOUND);
}

/* In a child, as a user that is in the key's group: whether it could read the key. */
static bool stranger_reads(const char *path, gid_t group) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct tt_cluster_key read_key;
        struct tt_error why;
        bool reads = setgid(group) == 0 && setuid(group) == 0 &&
                     tt_cluster_key_read(path, &read_key, &why) == TT_OK;
        _exit(reads ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status) == 0;
}

static void mounted_keys_are_for_a_group(void **state) {
    (void)state;
    enum { STRANGER = 54321 };
    if (geteuid() != 0)
        skip(); /* only root makes files of root */
    char path[] = "/tmp/tutti-key-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "0123456789abcdef\n", 17), 17);
    assert_int_equal(fchown(fd, 0, STRANGER), 0);
    static const struct {
        mode_t mode;
        bool is_read;
    } rows[] = {{0400, false}, {0440, true}, {0640, true}, {0460, false}, {0444, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(fchmod(fd, rows[i].mode), 0);
        assert_int_equal(stranger_reads(path, STRANGER), rows[i].is_read);
    }
    close(fd);
    unlink(path);
}

/* The tagger goes on with other keys and other texts, and gives the same tags. */
static void a_tagger_gives_the_same_tags(void **state) {
    (void)state;
    struct tt_datagram_tagger tagger = {NULL};
    assert_int_equal(tt_datagram_tagger_init(&tagger), TT_OK);
    for (uint8_t i = 0; i < 100; i++) {
        uint8_t session[TT_HANDSHAKE_PROOF_BYTES] = {(uint8_t)(i / 3)}, bytes[100] = {i};
        uint8_t tags[2][TT_DATAGRAM_TAG_BYTES];
        tt_datagram_tag(session, bytes, i, tags[0]);
        tt_datagram_tagger_sign(&tagger, session, bytes, i, tags[1]);
        assert_true(tt_datagram_tag_equals(tags[0], tags[1]));
        bytes[0]++;
        tt_datagram_tagger_sign(&tagger, session, bytes, i, tags[1]);
        assert_int_equal(tt_datagram_tag_equals(tags[0], tags[1]), i == 0);
    }
    tt_datagram_tagger_fini(&tagger);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_nodes_meet),
        cmocka_unit_test(another_key_is_refused),
        cmocka_unit_test(releases_may_be_one_apart),
        cmocka_unit_test(other_clusters_are_refused),
        cmocka_unit_test(a_visitor_needs_the_key_only),
        cmocka_unit_test(proofs_are_not_reused),
        cmocka_unit_test(any_bytes_do_no_harm),
        cmocka_unit_test(keys_are_read_with_care),
        cmocka_unit_test(mounted_keys_are_for_a_group),
        cmocka_unit_test(a_tagger_gives_the_same_tags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
