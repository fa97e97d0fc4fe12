#include "net/tls/tls_session.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* --- the BIO: OpenSSL's view of `fed` and `out` --- */

static int bio_read(BIO *bio, char *to, int size) {
    struct tt_tls_session *self = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (self->fed_bytes == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t count = self->fed_bytes < (size_t)size ? self->fed_bytes : (size_t)size;
    memcpy(to, self->fed, count);
    self->fed += count;
    self->fed_bytes -= count;
    return (int)count;
}

static int bio_write(BIO *bio, const char *bytes, int count) {
    struct tt_tls_session *self = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    tt_text_append(&self->out, bytes, (size_t)count);
    return self->out.failed ? -1 : count;
}

static long bio_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method;

static void make_bio_method(void) {
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tutti");
    if (!bio_method)
        return;
    BIO_meth_set_read(bio_method, bio_read);
    BIO_meth_set_write(bio_method, bio_write);
    BIO_meth_set_ctrl(bio_method, bio_control);
}

/* Empties OpenSSL's queue of errors of this thread. It is empty before each call, which
 * SSL_get_error() needs; emptying it for each call would cost more than a short record. */
static void keep_reason(struct tt_tls_session *self) {
    unsigned long code = ERR_peek_error();
    if (code && !self->reason)
        self->reason = ERR_reason_error_string(code);
    ERR_clear_error();
}

/* --- life --- */

static struct tt_tls_session *session_new(const struct tt_tls_context *context) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_bio_method);
    struct tt_tls_session *self = calloc(1, sizeof(*self));
    if (!self)
        return NULL;
    tt_text_init(&self->out);
    ERR_clear_error();
    self->ssl = SSL_new(context->openssl);
    BIO *bio = bio_method ? BIO_new(bio_method) : NULL;
    if (!self->ssl || !bio) {
        BIO_free(bio);
        tt_tls_session_free(self);
        return NULL;
    }
    BIO_set_data(bio, self);
    BIO_set_init(bio, 1);
    SSL_set_bio(self->ssl, bio, bio);
    SSL_set_app_data(self->ssl, self);
    return self;
}

struct tt_tls_session *tt_tls_session_new(const struct tt_tls_context *context,
                                          enum tt_tls_protocol protocol) {
    struct tt_tls_session *self = session_new(context);
    if (!self)
        return NULL;
    self->protocol = protocol;
    SSL_set_accept_state(self->ssl);
    return self;
}

struct tt_tls_session *tt_tls_session_connect(const struct tt_tls_context *context,
                                              const char *host) {
    static const unsigned char offered[] = "\x08http/1.1";
    unsigned char address[16];
    struct tt_tls_session *self = session_new(context);
    if (!self)
        return NULL;
    bool is_address =
        inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    X509_VERIFY_PARAM *wanted = SSL_get0_param(self->ssl);
    bool good = is_address ? X509_VERIFY_PARAM_set1_ip_asc(wanted, host) == 1
                           : SSL_set1_host(self->ssl, host) == 1 &&
                                 SSL_set_tlsext_host_name(self->ssl, host) == 1;
    /* 0 is success here, unlike elsewhere. */
    good = good && SSL_set_alpn_protos(self->ssl, offered, sizeof(offered) - 1) == 0;
    if (!good) {
        tt_tls_session_free(self);
        return NULL;
    }
    SSL_set_connect_state(self->ssl);
    (void)SSL_do_handshake(self->ssl);
    keep_reason(self);
    return self;
}

void tt_tls_session_free(struct tt_tls_session *take_self) {
    if (!take_self)
        return;
    if (take_self->open_count)
        --*take_self->open_count;
    SSL_free(take_self->ssl);
    tt_text_fini(&take_self->out);
    free(take_self);
}

/* --- bytes --- */

void tt_tls_session_feed(struct tt_tls_session *self, const char *bytes, size_t count) {
    tt_assert(self->fed_bytes == 0);
    self->fed = bytes;
    self->fed_bytes = count;
}

bool tt_tls_session_is_http2(const struct tt_tls_session *self) {
    const unsigned char *chosen;
    unsigned length;
    SSL_get0_alpn_selected(self->ssl, &chosen, &length);
    return length == 2;
}

/* True: gRPC speaks HTTP/2 only where both sides agreed on it. */
static bool has_protocol(const struct tt_tls_session *self) {
    return self->protocol != TT_TLS_HTTP2 || tt_tls_session_is_http2(self);
}

static enum tt_tls_event fail(struct tt_tls_session *self) {
    keep_reason(self);
    self->is_failed = true;
    self->fed_bytes = 0;
    return TT_TLS_FAILED;
}

enum tt_tls_event tt_tls_session_read(struct tt_tls_session *self, char *to, size_t size,
                                      size_t *out_count) {
    size_t count = 0;
    if (self->is_failed)
        return fail(self);
    if (!self->fed_bytes && !SSL_has_pending(self->ssl))
        return TT_TLS_MORE;
    int result = SSL_read_ex(self->ssl, to, size, &count);
    if (!self->is_established && SSL_is_init_finished(self->ssl)) {
        self->is_established = true;
        if (!has_protocol(self))
            return fail(self);
    }
    if (result == 1) {
        *out_count = count;
        return TT_TLS_DATA;
    }
    switch (SSL_get_error(self->ssl, result)) {
    case SSL_ERROR_WANT_READ: return TT_TLS_MORE;
    case SSL_ERROR_ZERO_RETURN: self->fed_bytes = 0; return TT_TLS_END;
    default: return fail(self);
    }
}

bool tt_tls_session_write(struct tt_tls_session *self, const void *bytes, size_t count) {
    const char *from = bytes;
    tt_assert(self->is_established);
    while (count && !self->is_failed) {
        size_t written = 0;
        if (SSL_write_ex(self->ssl, from, count, &written) != 1 || self->out.failed)
            (void)fail(self);
        from += written;
        count -= written;
    }
    return !self->is_failed;
}

void tt_tls_session_end(struct tt_tls_session *self) {
    if (self->is_failed || !self->is_established)
        return;
    (void)SSL_shutdown(self->ssl);
    keep_reason(self);
}

const char *tt_tls_session_reason(const struct tt_tls_session *self) {
    long verified = SSL_get_verify_result(self->ssl);
    if (verified != X509_V_OK)
        return X509_verify_cert_error_string(verified);
    return self->reason ? self->reason : "the TLS handshake failed";
}
