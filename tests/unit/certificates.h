/* Certificates of a test's own, in a folder of its own. All functions are inline; there is no .c
 * file. Include it after cmocka.h. */
#ifndef TT_TESTS_CERTIFICATES_H
#define TT_TESTS_CERTIFICATES_H

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

/* The caller makes it by mkdtemp(). */
static char folder[] = "/tmp/tutti_tls_XXXXXX";

struct signer {
    EVP_PKEY *key;
    X509 *certificate;
};

static inline const char *path_of(const char *name) {
    static char paths[8][128];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static inline void extend(X509 *certificate, int nid, const char *value) {
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* A key and its certificate, signed by `by` (NULL: by itself), in NAME.pem and NAME.key. */
static inline struct signer make(const char *name, const struct signer *by, long valid_s) {
    struct signer made = {.key = EVP_EC_gen("P-256"), .certificate = X509_new()};
    static long serial;
    X509 *certificate = made.certificate;
    char file[64];
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -7200);
    X509_gmtime_adj(X509_getm_notAfter(certificate), valid_s);
    X509_set_pubkey(certificate, made.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(by ? by->certificate : certificate));
    extend(certificate, NID_basic_constraints, by ? "CA:FALSE" : "critical,CA:TRUE");
    extend(certificate, NID_subject_alt_name, "DNS:tutti.test,IP:127.0.0.1");
    assert_true(X509_sign(certificate, by ? by->key : made.key, EVP_sha256()) > 0);
    snprintf(file, sizeof(file), "%s.pem", name);
    FILE *out = fopen(path_of(file), "w");
    assert_non_null(out);
    PEM_write_X509(out, certificate);
    fclose(out);
    snprintf(file, sizeof(file), "%s.key", name);
    out = fopen(path_of(file), "w");
    assert_non_null(out);
    PEM_write_PrivateKey(out, made.key, NULL, NULL, 0, NULL, NULL);
    fclose(out);
    return made;
}

static inline void forget(struct signer *self) {
    EVP_PKEY_free(self->key);
    X509_free(self->certificate);
}

#endif
