/* The methods by their paths, and the answers of those that need no inference.
 *
 * Most answers are the pages that HTTP sends as JSON (net/kserve/kserve_pages.h), converted to the
 * message of the same fields. So both transports answer alike. Implemented in grpc_methods.c,
 * grpc_repository.c, grpc_health.c and grpc_reflection.c. */
#ifndef TT_NET_GRPC_GRPC_METHODS_H
#define TT_NET_GRPC_GRPC_METHODS_H

#include "net/access/access_role.h"
#include "net/grpc/grpc_pack.h"
#include "net/kserve/kserve_operations.h"
#include "serve/model_command.h"

/* Appends the packed answer to a packed request. */
typedef enum tt_err tt_grpc_answer_fn(const struct tt_kserve_service *service, const char *bytes,
                                      size_t size_bytes, struct tt_text *out, struct tt_error *why);

enum tt_grpc_kind {
    TT_GRPC_UNARY,      /* `answer` */
    TT_GRPC_STATISTICS, /* the same, but later for many models, here and in the next one */
    TT_GRPC_INDEX,
    TT_GRPC_INFER,  /* one request, one answer */
    TT_GRPC_STREAM, /* of inferences */
    TT_GRPC_LOAD,   /* a model command */
    TT_GRPC_UNLOAD, /* the same */
    TT_GRPC_EACH,   /* `answer` for each message of a stream */
    TT_GRPC_WATCH,  /* of the health */
};

struct tt_grpc_method {
    const char *service, *name;
    enum tt_grpc_kind kind;
    enum tt_operation operation; /* its roles: net/access/access_role.h */
    tt_grpc_answer_fn *answer;
};

/* For tests; `index` from 0 on. NULL: there is none of that index. */
const struct tt_grpc_method *tt_grpc_method_at(size_t index);
/* `path`: "/service/name". NULL: there is no such method. */
const struct tt_grpc_method *tt_grpc_method_find(const char *path, size_t path_bytes);

/* --- for the files of this folder --- */

/* The command that a packed RepositoryModelLoadRequest or ...UnloadRequest asks for. */
TT_MUST_CHECK enum tt_err tt_grpc_read_command(bool is_load, const char *bytes, size_t size_bytes,
                                               struct tt_model_command **out_command,
                                               struct tt_error *why);
/* What the health service says of a target; `model` "": of the server. NOT_FOUND: no such model. */
TT_MUST_CHECK enum tt_err tt_grpc_health(const struct tt_kserve_service *service,
                                         const struct tt_kserve_target *target, int32_t *out_status,
                                         struct tt_error *why);
/* The target that a packed HealthCheckRequest names. */
TT_MUST_CHECK enum tt_err tt_grpc_read_health(const char *bytes, size_t size_bytes,
                                              struct tt_kserve_target *out_target,
                                              struct tt_error *why);
/* Appends the packed ModelStatisticsResponse. */
TT_MUST_CHECK enum tt_err tt_grpc_pack_statistics(const struct tt_kserve_statistics *statistics,
                                                  struct tt_text *out, struct tt_error *why);
/* Appends the packed RepositoryIndexResponse. */
TT_MUST_CHECK enum tt_err tt_grpc_pack_index(const struct tt_kserve_index *index,
                                             struct tt_text *out, struct tt_error *why);
/* What a packed RepositoryIndexRequest asks for. */
TT_MUST_CHECK enum tt_err tt_grpc_read_index(const char *bytes, size_t size_bytes,
                                             bool *out_only_ready, struct tt_error *why);
/* The target that a packed request names, of those that have the fields name and version. */
TT_MUST_CHECK enum tt_err tt_grpc_read_target(const char *bytes, size_t size_bytes,
                                              struct tt_kserve_target *out_target,
                                              struct tt_error *why);
void tt_grpc_write_health(int32_t status, struct tt_text *out);
tt_grpc_answer_fn tt_grpc_answer_health, tt_grpc_answer_reflection, tt_grpc_answer_index;
tt_grpc_answer_fn tt_grpc_answer_memory_status, tt_grpc_answer_memory_register;
tt_grpc_answer_fn tt_grpc_answer_memory_unregister;

#endif
