#include "net/tls/tls_context.h"

#include "base/log/log.h"
#include "net/tls/tls_session.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- errors --- */

/* The reason of OpenSSL's first error; clears all. */
static const char *reason(void) {
    unsigned long code = ERR_get_error();
    const char *text = ERR_reason_error_string(code);
    ERR_clear_error();
    return text ? text : "unknown error";
}

static enum tt_err check_readable(const char *path, struct tt_error *why) {
    if (access(path, R_OK) == 0)
        return TT_OK;
    int failed = errno;
    return tt_fail(failed == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO, why, "%s: %s", path,
                   strerror(failed));
}

/* --- contexts --- */

static void context_free(struct tt_shared *shared) {
    struct tt_tls_context *self = TT_CONTAINER_OF(shared, struct tt_tls_context, shared);
    SSL_CTX_free(self->openssl);
    free(self);
}

void tt_tls_context_unref(struct tt_tls_context *self) {
    if (self)
        tt_shared_unref(&self->shared);
}

static enum tt_err context_new(const SSL_METHOD *method, struct tt_tls_context **out_context,
                               struct tt_error *why) {
    struct tt_tls_context *self = calloc(1, sizeof(*self));
    SSL_CTX *openssl = self ? SSL_CTX_new(method) : NULL;
    if (!openssl || !SSL_CTX_set_min_proto_version(openssl, TLS1_2_VERSION)) {
        SSL_CTX_free(openssl);
        free(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "cannot begin with TLS: %s", reason());
    }
    tt_shared_init(&self->shared, context_free);
    self->openssl = openssl;
    SSL_CTX_set_options(openssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(openssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(openssl, 1);
    *out_context = self;
    return TT_OK;
}

/* --- servers --- */

/* A key with a password cannot be read: there is no terminal to ask. */
static int no_password(char *buffer, int size, int for_writing, void *context) {
    (void)buffer;
    (void)size;
    (void)for_writing;
    (void)context;
    return -1;
}

/* Chooses `name` if the client offers it. */
static bool choose(const char *name, const unsigned char **out, unsigned char *out_length,
                   const unsigned char *offered, unsigned offered_length) {
    size_t length = strlen(name);
    for (unsigned at = 0; at < offered_length; at += 1U + offered[at])
        if (offered[at] == length && offered_length - at > length &&
            memcmp(offered + at + 1, name, length) == 0) {
            *out = offered + at + 1;
            *out_length = (unsigned char)length;
            return true;
        }
    return false;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_length,
                           const unsigned char *offered, unsigned offered_length, void *context) {
    (void)context;
    enum tt_tls_protocol protocol =
        ((const struct tt_tls_session *)SSL_get_app_data(ssl))->protocol;
    if (protocol != TT_TLS_HTTP1 && choose("h2", out, out_length, offered, offered_length))
        return SSL_TLSEXT_ERR_OK;
    if (protocol != TT_TLS_HTTP2 && choose("http/1.1", out, out_length, offered, offered_length))
        return SSL_TLSEXT_ERR_OK;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* The certificate and the key of this side. */
static enum tt_err use_own(SSL_CTX *openssl, const struct tt_tls_files *files,
                           struct tt_error *why) {
    enum tt_err err = check_readable(files->certificate, why);
    err = err ? err : check_readable(files->key, why);
    if (err)
        return err;
    SSL_CTX_set_default_passwd_cb(openssl, no_password);
    if (SSL_CTX_use_certificate_chain_file(openssl, files->certificate) != 1)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s: %s; it must have the server's certificate in PEM, then those that "
                       "sign it",
                       files->certificate, reason());
    if (SSL_CTX_use_PrivateKey_file(openssl, files->key, SSL_FILETYPE_PEM) != 1)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s: %s; it must be the private key of %s in PEM, without a password",
                       files->key, reason(), files->certificate);
    return TT_OK;
}

static enum tt_err use_files(SSL_CTX *openssl, const struct tt_tls_files *files,
                             struct tt_error *why) {
    enum tt_err err = use_own(openssl, files, why);
    if (!err && files->client_ca)
        err = check_readable(files->client_ca, why);
    if (err || !files->client_ca)
        return err;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(files->client_ca);
    if (!names || SSL_CTX_load_verify_file(openssl, files->client_ca) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return tt_fail(TT_ERR_INVALID, why,
                       "%s: %s; it must have, in PEM, the certificates that sign those of clients",
                       files->client_ca, reason());
    }
    SSL_CTX_set_client_CA_list(openssl, names);
    SSL_CTX_set_verify(openssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return TT_OK;
}

static enum tt_err server_context_new(const struct tt_tls_files *files,
                                      struct tt_tls_context **out_context, struct tt_error *why) {
    static const unsigned char session_id[] = "tutti";
    struct tt_tls_context *self;
    ERR_clear_error();
    enum tt_err err = context_new(TLS_server_method(), &self, why);
    if (err)
        return err;
    SSL_CTX_set_session_id_context(self->openssl, session_id, sizeof(session_id) - 1);
    SSL_CTX_set_session_cache_mode(self->openssl, SSL_SESS_CACHE_OFF); /* tickets need none */
    SSL_CTX_set_num_tickets(self->openssl, 1);
    SSL_CTX_set_alpn_select_cb(self->openssl, choose_protocol, NULL);
    err = use_files(self->openssl, files, why);
    if (err)
        tt_tls_context_unref(self);
    else
        *out_context = self;
    return err;
}

static void warn(const struct tt_tls_server *self, const struct tt_tls_context *context) {
    struct stat key;
    if (stat(self->files.key, &key) == 0 && (key.st_mode & S_IROTH))
        tt_log_write(self->log, TT_LOG_WARNING, NULL,
                     "%s: every user of this machine can read the private key; chmod 600 it",
                     self->files.key);
    const X509 *certificate = SSL_CTX_get0_certificate(context->openssl);
    if (certificate && X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
        tt_log_write(self->log, TT_LOG_WARNING, NULL,
                     "%s: the certificate has expired; clients will refuse it",
                     self->files.certificate);
}

enum tt_err tt_tls_server_init(struct tt_tls_server *self, const struct tt_tls_files *files,
                               struct tt_log *log, struct tt_error *why) {
    struct tt_tls_context *context;
    enum tt_err err = server_context_new(files, &context, why);
    if (err)
        return err;
    *self = (struct tt_tls_server){.files = *files, .log = log};
    tt_published_init(&self->context);
    warn(self, context);
    tt_published_set(&self->context, &context->shared);
    return TT_OK;
}

void tt_tls_server_fini(struct tt_tls_server *self) { tt_published_fini(&self->context); }

void tt_tls_server_reload(struct tt_tls_server *self) {
    struct tt_tls_context *context;
    struct tt_error why;
    if (server_context_new(&self->files, &context, &why) != TT_OK) {
        tt_log_write(self->log, TT_LOG_ERROR, NULL, "the former certificate stays in force: %s",
                     why.text);
        return;
    }
    tt_log_write(self->log, TT_LOG_INFO, NULL, "certificate read again: %s",
                 self->files.certificate);
    warn(self, context);
    tt_published_set(&self->context, &context->shared);
}

const struct tt_tls_context *tt_tls_server_context(struct tt_tls_server *self,
                                                   struct tt_published_view *view) {
    struct tt_shared *value = tt_published_get(&self->context, view);
    tt_assert(value != NULL);
    return TT_CONTAINER_OF(value, struct tt_tls_context, shared);
}

/* --- clients --- */

enum tt_err tt_tls_client_new(const char *ca_path, struct tt_tls_context **out_context,
                              struct tt_error *why) {
    struct tt_tls_context *self;
    ERR_clear_error();
    enum tt_err err = ca_path ? check_readable(ca_path, why) : TT_OK;
    err = err ? err : context_new(TLS_client_method(), &self, why);
    if (err)
        return err;
    SSL_CTX_set_verify(self->openssl, SSL_VERIFY_PEER, NULL);
    if (ca_path ? SSL_CTX_load_verify_file(self->openssl, ca_path) != 1
                : SSL_CTX_set_default_verify_paths(self->openssl) != 1) {
        tt_tls_context_unref(self);
        return tt_fail(TT_ERR_INVALID, why, "%s: %s; it must have certificates in PEM",
                       ca_path ? ca_path : "the system's certificates", reason());
    }
    *out_context = self;
    return TT_OK;
}

/* --- peers --- */

enum tt_err tt_tls_peer_new(const struct tt_tls_files *files, bool is_client,
                            struct tt_tls_context **out_context, struct tt_error *why) {
    struct tt_tls_context *self;
    tt_assert(files->client_ca != NULL);
    if (!is_client)
        return server_context_new(files, out_context, why);
    enum tt_err err = tt_tls_client_new(files->client_ca, &self, why);
    if (err)
        return err;
    err = use_own(self->openssl, files, why);
    if (err)
        tt_tls_context_unref(self);
    else
        *out_context = self;
    return err;
}
