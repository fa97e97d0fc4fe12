/* JSON bodies of management operations: what they ask for, as plain structs. Each function reads a
 * body in one pass, without a tree, so memory does not exceed that of the result. It changes
 * nothing. An empty body is legal where the protocol allows it (index, load, unload).
 *
 * Errors: INVALID (with the byte or the name), UNSUPPORTED, NO_MEMORY. Implemented in
 * kserve_bodies.c. */
#ifndef TT_NET_KSERVE_KSERVE_BODIES_H
#define TT_NET_KSERVE_KSERVE_BODIES_H

#include "net/kserve/kserve_operations.h"
#include "serve/model_command.h"

enum {
    TT_KSERVE_MAX_FILES = 1000,               /* that one load may bring */
    TT_KSERVE_MAX_CONFIG_BYTES = 4096 * 1024, /* of its configuration, and */
    TT_KSERVE_MAX_CONFIG_VALUES = 65536       /* values: each takes 200 bytes of a tree */
};

TT_MUST_CHECK enum tt_err tt_kserve_read_index(const char *body, size_t body_bytes,
                                               bool *out_only_ready, struct tt_error *why);
/* Fills a new command's configuration and files. After an error the command is incomplete; the
 * caller frees it in any case. */
TT_MUST_CHECK enum tt_err tt_kserve_read_load(const char *body, size_t body_bytes,
                                              struct tt_model_command *command,
                                              struct tt_error *why);
/* INVALID: a load has no such parameter. */
enum tt_err tt_kserve_refuse_load_parameter(const char *key, struct tt_error *why);
/* INVALID: a load's configuration is too long, has too many values (every comma and opening bracket
 * counts as one), is not UTF-8 text, or contains a NUL. */
TT_MUST_CHECK enum tt_err tt_kserve_check_load_config(const char *text, size_t length,
                                                      struct tt_error *why);
/* A region of shared memory, without its name, which the path says. */
struct tt_kserve_region {
    char key[256];
    uint64_t offset, size;
};
TT_MUST_CHECK enum tt_err tt_kserve_read_region(const char *body, size_t body_bytes,
                                                struct tt_kserve_region *out_region,
                                                struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_kserve_read_log_change(const char *body, size_t body_bytes,
                                                    struct tt_kserve_log_settings *out_change,
                                                    struct tt_error *why);
/* OK for a body that changes nothing: no members, or only null, which means the default. Else the
 * error of tt_kserve_trace_settings_change. */
TT_MUST_CHECK enum tt_err tt_kserve_read_trace_change(const char *body, size_t body_bytes,
                                                      struct tt_error *why);

#endif
