/* TLS in memory: a server's session and a client's, whose bytes go back and forth without sockets.
 * Certificates are made here. */
#include "net/tls/tls_loop.h"
#include "unit/seed.h"

#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/certificates.h"

static int setup(void **state) {
    (void)state;
    assert_non_null(mkdtemp(folder));
    struct signer ca = make("ca", NULL, 7200), other = make("other", NULL, 7200);
    struct signer server = make("server", &ca, 7200), expired = make("expired", &ca, -60);
    struct signer client = make("client", &ca, 7200), stranger = make("stranger", &other, 7200);
    forget(&ca);
    forget(&other);
    forget(&server);
    forget(&expired);
    forget(&client);
    forget(&stranger);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command); /* NOLINT(cert-env33-c) */
}

/* --- two ends --- */

struct ends {
    struct tt_tls_server server;
    struct tt_tls_loop *loop;
    struct tt_tls_context *client_context;
    struct tt_tls_session *server_end, *client_end;
    struct tt_text server_got, client_got;
    enum tt_tls_event server_event, client_event;
    size_t step; /* bytes at a time */
};

static void open_ends(struct ends *self, const char *name, const char *client_ca, const char *ca,
                      const char *host, enum tt_tls_protocol protocol) {
    char certificate[32], key[32];
    struct tt_error why = {{0}};
    snprintf(certificate, sizeof(certificate), "%s.pem", name);
    snprintf(key, sizeof(key), "%s.key", name);
    const struct tt_tls_files files = {.certificate = path_of(certificate),
                                       .key = path_of(key),
                                       .client_ca = client_ca ? path_of(client_ca) : NULL};
    memset(self, 0, sizeof(*self));
    self->step = SIZE_MAX;
    if (tt_tls_server_init(&self->server, &files, NULL, &why) != TT_OK)
        fail_msg("%s", why.text);
    self->loop = tt_tls_loop_new(&self->server);
    assert_int_equal(tt_tls_client_new(path_of(ca), &self->client_context, &why), TT_OK);
    self->server_end = tt_tls_loop_accept(self->loop, protocol);
    self->client_end = tt_tls_session_connect(self->client_context, host);
    assert_non_null(self->server_end);
    assert_non_null(self->client_end);
}

static void close_ends(struct ends *self) {
    tt_tls_session_free(self->server_end);
    tt_tls_session_free(self->client_end);
    tt_tls_loop_free(self->loop);
    tt_tls_server_fini(&self->server);
    tt_tls_context_unref(self->client_context);
    tt_text_fini(&self->server_got);
    tt_text_fini(&self->client_got);
}

/* Moves what one end has to send to the other. */
static enum tt_tls_event move(struct tt_tls_session *from, struct tt_tls_session *to,
                              struct tt_text *got, size_t step) {
    struct tt_text bytes = from->out;
    enum tt_tls_event event = TT_TLS_MORE;
    char plain[3000];
    tt_text_init(&from->out);
    for (size_t at = 0; at < bytes.length && event == TT_TLS_MORE;) {
        size_t count = bytes.length - at < step ? bytes.length - at : step;
        char *copy = malloc(count); /* so that a read behind the end is seen */
        memcpy(copy, bytes.bytes + at, count);
        tt_tls_session_feed(to, copy, count);
        at += count;
        while ((event = tt_tls_session_read(to, plain, sizeof(plain), &count)) == TT_TLS_DATA)
            tt_text_append(got, plain, count);
        assert_int_equal(to->fed_bytes, 0);
        free(copy);
    }
    tt_text_fini(&bytes);
    return event;
}

static void talk(struct ends *self) {
    for (int round = 0; round < 8; round++) {
        enum tt_tls_event event =
            move(self->client_end, self->server_end, &self->server_got, self->step);
        self->server_event = event == TT_TLS_MORE ? self->server_event : event;
        event = move(self->server_end, self->client_end, &self->client_got, self->step);
        self->client_event = event == TT_TLS_MORE ? self->client_event : event;
    }
}

/* --- tests --- */

static void test_bytes(void **state) {
    (void)state;
    static const size_t steps[] = {1, 7, 1000, SIZE_MAX}, sizes[] = {1, 100, 16384, 16385, 300000};
    for (size_t i = 0; i < TT_COUNT(steps); i++) {
        struct ends ends;
        open_ends(&ends, "server", NULL, "ca.pem", i % 2 ? "127.0.0.1" : "tutti.test",
                  TT_TLS_HTTP1);
        ends.step = steps[i];
        talk(&ends);
        assert_true(ends.server_end->is_established);
        for (size_t k = 0; k < TT_COUNT(sizes); k++) {
            char *bytes = malloc(sizes[k]);
            for (size_t b = 0; b < sizes[k]; b++)
                bytes[b] = (char)(b * 31 + k);
            tt_text_clear(&ends.server_got);
            tt_text_clear(&ends.client_got);
            assert_true(tt_tls_session_write(ends.client_end, bytes, sizes[k]));
            /* In two pieces, which are gathered into as few records as there can be. */
            assert_true(tt_tls_loop_add(ends.loop, ends.server_end, bytes, sizes[k] / 3));
            assert_true(tt_tls_loop_add(ends.loop, ends.server_end, bytes + sizes[k] / 3,
                                        sizes[k] - sizes[k] / 3));
            assert_true(tt_tls_loop_end(ends.loop, ends.server_end));
            assert_true(ends.server_end->out.length <= sizes[k] + 64 * (1 + sizes[k] / 8192));
            talk(&ends);
            assert_int_equal(ends.server_got.length, sizes[k]);
            assert_int_equal(ends.client_got.length, sizes[k]);
            assert_memory_equal(ends.server_got.bytes, bytes, sizes[k]);
            assert_memory_equal(ends.client_got.bytes, bytes, sizes[k]);
            free(bytes);
        }
        assert_true(SSL_version(ends.server_end->ssl) == TLS1_3_VERSION);
        tt_tls_session_end(ends.server_end);
        talk(&ends);
        assert_int_equal(ends.client_event, TT_TLS_END);
        close_ends(&ends);
    }
}

static void test_spare_memory(void **state) {
    (void)state;
    struct ends ends;
    open_ends(&ends, "server", NULL, "ca.pem", "tutti.test", TT_TLS_HTTP1);
    talk(&ends);
    assert_true(tt_tls_loop_add(ends.loop, ends.server_end, "x", 1));
    assert_true(tt_tls_loop_end(ends.loop, ends.server_end));
    assert_int_equal(ends.loop->open_count, 1);
    const char *memory = ends.server_end->out.bytes;
    tt_tls_loop_written(ends.loop, ends.server_end);
    assert_null(ends.server_end->out.bytes);
    assert_ptr_equal(ends.loop->spare.bytes, memory);
    close_ends(&ends);
}

/* Which side refuses, and why. */
static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *server, *client_ca, *ca, *host, *reason;
    } cases[] = {
        {"server", NULL, "other.pem", "tutti.test", "unable to get local issuer certificate"},
        {"server", NULL, "ca.pem", "evil.test", "hostname mismatch"},
        {"server", NULL, "ca.pem", "127.0.0.2", "IP address mismatch"},
        {"expired", NULL, "ca.pem", "tutti.test", "certificate has expired"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct ends ends;
        open_ends(&ends, cases[i].server, cases[i].client_ca, cases[i].ca, cases[i].host,
                  TT_TLS_HTTP1);
        talk(&ends);
        assert_int_equal(ends.client_event, TT_TLS_FAILED);
        assert_string_equal(tt_tls_session_reason(ends.client_end), cases[i].reason);
        assert_int_equal(ends.server_event, TT_TLS_FAILED); /* it got the client's alert */
        close_ends(&ends);
    }
}

static void use(SSL_CTX *context, const char *name) {
    char file[32];
    snprintf(file, sizeof(file), "%s.pem", name);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(context, path_of(file)), 1);
    snprintf(file, sizeof(file), "%s.key", name);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(context, path_of(file), SSL_FILETYPE_PEM), 1);
}

/* With a CA for clients: no certificate, one of another CA, the right one. */
static void test_client_certificates(void **state) {
    (void)state;
    static const char *const names[] = {NULL, "stranger", "client"};
    for (size_t i = 0; i < TT_COUNT(names); i++) {
        struct ends ends;
        open_ends(&ends, "server", "ca.pem", "ca.pem", "tutti.test", TT_TLS_HTTP1);
        if (names[i]) {
            use(ends.client_context->openssl, names[i]);
            tt_tls_session_free(ends.client_end);
            ends.client_end = tt_tls_session_connect(ends.client_context, "tutti.test");
        }
        talk(&ends);
        bool is_right = i == 2;
        assert_int_equal(ends.server_event == TT_TLS_FAILED, !is_right);
        assert_int_equal(ends.server_end->is_established, is_right);
        close_ends(&ends);
    }
}

static struct tt_tls_context *peer(const char *name, const char *ca, bool is_client) {
    char certificate[32], key[32];
    struct tt_error why = {{0}};
    struct tt_tls_context *made;
    snprintf(certificate, sizeof(certificate), "%s.pem", name);
    snprintf(key, sizeof(key), "%s.key", name);
    const struct tt_tls_files files = {
        .certificate = path_of(certificate), .key = path_of(key), .client_ca = path_of(ca)};
    if (tt_tls_peer_new(&files, is_client, &made, &why) != TT_OK)
        fail_msg("%s", why.text);
    return made;
}

/* Both sides must show a certificate that the other one trusts. */
static void test_peers(void **state) {
    (void)state;
    static const struct {
        const char *dialer, *dialer_trusts, *listener, *listener_trusts;
        bool is_good;
    } cases[] = {
        {"client", "ca.pem", "server", "ca.pem", true},
        {"stranger", "ca.pem", "server", "ca.pem", false},
        {"client", "ca.pem", "stranger", "ca.pem", false},
        {"client", "other.pem", "server", "ca.pem", false},
        {"client", "ca.pem", "server", "other.pem", false},
        {"stranger", "ca.pem", "server", "other.pem", true},
        {"expired", "ca.pem", "server", "ca.pem", false},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_tls_context *dialer = peer(cases[i].dialer, cases[i].dialer_trusts, true);
        struct tt_tls_context *listener = peer(cases[i].listener, cases[i].listener_trusts, false);
        struct ends ends = {.step = SIZE_MAX,
                            .server_end = tt_tls_session_new(listener, TT_TLS_HTTP1),
                            .client_end = tt_tls_session_connect(dialer, "127.0.0.1")};
        talk(&ends);
        bool is_good = ends.server_event != TT_TLS_FAILED && ends.client_event != TT_TLS_FAILED;
        if (is_good != cases[i].is_good || ends.server_end->is_established != is_good)
            fail_msg("case %zu", i);
        tt_tls_session_free(ends.server_end);
        tt_tls_session_free(ends.client_end);
        tt_tls_context_unref(dialer);
        tt_tls_context_unref(listener);
    }
    struct tt_error why;
    struct tt_tls_context *none;
    const struct tt_tls_files absent = {.certificate = path_of("client.pem"),
                                        .key = path_of("no.key"),
                                        .client_ca = path_of("ca.pem")};
    assert_int_equal(tt_tls_peer_new(&absent, true, &none, &why), TT_ERR_NOT_FOUND);
    assert_int_equal(tt_tls_peer_new(&absent, false, &none, &why), TT_ERR_NOT_FOUND);
}

static void offer(struct ends *self, const char *protocols) {
    tt_tls_session_free(self->client_end);
    self->client_end = tt_tls_session_connect(self->client_context, "tutti.test");
    SSL *ssl = self->client_end->ssl;
    /* The first bytes have the former offer: begin again. */
    tt_text_clear(&self->client_end->out);
    SSL_clear(ssl);
    SSL_set_alpn_protos(ssl, (const unsigned char *)protocols, (unsigned)strlen(protocols));
    SSL_set_connect_state(ssl);
    (void)SSL_do_handshake(ssl);
}

static void test_protocols(void **state) {
    (void)state;
    static const struct {
        enum tt_tls_protocol protocol;
        const char *offered;
        bool is_good;
    } cases[] = {
        {TT_TLS_HTTP1, "\x02h2\x08http/1.1", true},
        {TT_TLS_HTTP1, "\x02h2", false},
        {TT_TLS_HTTP1, "", true},
        {TT_TLS_HTTP2, "\x08http/1.1", false},
        {TT_TLS_HTTP2, "\x08grpc-exp\x02h2", true},
        {TT_TLS_HTTP2, "", false},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct ends ends;
        open_ends(&ends, "server", NULL, "ca.pem", "tutti.test", cases[i].protocol);
        offer(&ends, cases[i].offered);
        talk(&ends);
        if ((ends.server_event != TT_TLS_FAILED) != cases[i].is_good)
            fail_msg("case %zu", i);
        close_ends(&ends);
    }
}

static void test_old_versions(void **state) {
    (void)state;
    struct ends ends;
    open_ends(&ends, "server", NULL, "ca.pem", "tutti.test", TT_TLS_HTTP1);
    tt_tls_session_free(ends.client_end);
    SSL_CTX_set_max_proto_version(ends.client_context->openssl, TLS1_2_VERSION);
    ends.client_end = tt_tls_session_connect(ends.client_context, "tutti.test");
    talk(&ends);
    assert_true(ends.server_end->is_established);
    assert_true(SSL_version(ends.server_end->ssl) == TLS1_2_VERSION);
    SSL_renegotiate(ends.client_end->ssl); /* is refused */
    (void)SSL_do_handshake(ends.client_end->ssl);
    talk(&ends);
    assert_int_equal(SSL_num_renegotiations(ends.server_end->ssl), 0);
    close_ends(&ends);

    open_ends(&ends, "server", NULL, "ca.pem", "tutti.test", TT_TLS_HTTP1);
    tt_tls_session_free(ends.client_end);
    SSL_CTX_set_security_level(ends.client_context->openssl, 0);
    SSL_CTX_set_min_proto_version(ends.client_context->openssl, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(ends.client_context->openssl, TLS1_1_VERSION);
    ends.client_end = tt_tls_session_connect(ends.client_context, "tutti.test");
    talk(&ends);
    assert_int_equal(ends.server_event, TT_TLS_FAILED);
    close_ends(&ends);
}

/* A connection keeps its context; the next one gets the new one; broken files change nothing. */
static void test_reload(void **state) {
    (void)state;
    struct ends ends;
    struct tt_text text;
    struct tt_error why;
    open_ends(&ends, "server", NULL, "ca.pem", "tutti.test", TT_TLS_HTTP1);
    talk(&ends);
    const struct tt_tls_context *former = tt_tls_server_context(&ends.server, &ends.loop->view);
    char *kept = strdup(ends.server.files.certificate);
    ends.server.files.certificate = path_of("client.pem"); /* its key is another one */
    tt_tls_server_reload(&ends.server);
    assert_ptr_equal(tt_tls_server_context(&ends.server, &ends.loop->view), former);
    ends.server.files.key = path_of("client.key");
    tt_tls_server_reload(&ends.server);
    assert_ptr_not_equal(tt_tls_server_context(&ends.server, &ends.loop->view), former);
    assert_true(tt_tls_session_write(ends.client_end, "still", 5));
    talk(&ends);
    assert_string_equal(tt_text_string(&ends.server_got), "still");
    close_ends(&ends);

    /* Mutated files are refused or good, and never crash. */
    uint64_t seed = test_seed(11);
    tt_text_init(&text);
    assert_int_equal(tt_text_read_file(kept, 1 << 20, &text, &why), TT_OK);
    const struct tt_tls_files files = {.certificate = path_of("mutated.pem"),
                                       .key = path_of("server.key")};
    int refused = 0;
    for (int i = 0; i < 300; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
        size_t at = (size_t)(seed >> 33) % text.length;
        char former_byte = text.bytes[at];
        text.bytes[at] = (char)(seed >> 24);
        struct tt_tls_server server;
        assert_int_equal(tt_text_write_file(files.certificate, &text, &why), TT_OK);
        if (tt_tls_server_init(&server, &files, NULL, &why) == TT_OK) {
            tt_tls_server_fini(&server);
        } else {
            assert_non_null(strstr(why.text, "mutated.pem"));
            refused++;
        }
        text.bytes[at] = former_byte;
    }
    assert_in_range(refused, 1, 300);
    tt_text_fini(&text);
    free(kept);
}

/* Changed bytes of a handshake or a record end the connection; they never crash it, and never pass
 * for data. */
static void test_mutated_bytes(void **state) {
    (void)state;
    uint64_t seed = test_seed(12);
    for (int i = 0; i < 200; i++) {
        struct ends ends;
        open_ends(&ends, "server", NULL, "ca.pem", "tutti.test", TT_TLS_HTTP1);
        if (i % 2) {
            talk(&ends);
            assert_true(tt_tls_session_write(ends.client_end, "plain", 5));
        }
        struct tt_text *out = &ends.client_end->out;
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
        size_t at = (size_t)(seed >> 33) % out->length;
        out->bytes[at] = (char)(out->bytes[at] ^ (char)(1U << (seed >> 30 & 7)));
        talk(&ends);
        assert_int_equal(ends.server_got.length, 0);
        close_ends(&ends);
    }
}

static void test_files(void **state) {
    (void)state;
    struct tt_tls_server server;
    struct tt_tls_context *client;
    struct tt_error why;
    struct tt_tls_files files = {.certificate = path_of("none.pem"), .key = path_of("server.key")};
    assert_int_equal(tt_tls_server_init(&server, &files, NULL, &why), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, "none.pem: No such file"));
    files.certificate = path_of("server.pem");
    files.key = path_of("client.key");
    assert_int_equal(tt_tls_server_init(&server, &files, NULL, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "it must be the private key of"));
    files.key = path_of("server.pem");
    assert_int_equal(tt_tls_server_init(&server, &files, NULL, &why), TT_ERR_INVALID);
    files.key = path_of("server.key");
    files.client_ca = path_of("server.key");
    assert_int_equal(tt_tls_server_init(&server, &files, NULL, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "the certificates that sign those of clients"));
    assert_int_equal(tt_tls_client_new(path_of("none.pem"), &client, &why), TT_ERR_NOT_FOUND);
    assert_int_equal(tt_tls_client_new(path_of("server.key"), &client, &why), TT_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),         cmocka_unit_test(test_spare_memory),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_client_certificates),
        cmocka_unit_test(test_peers),         cmocka_unit_test(test_protocols),
        cmocka_unit_test(test_old_versions),  cmocka_unit_test(test_reload),
        cmocka_unit_test(test_mutated_bytes), cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
