/* Permissions: operations of the server, roles of identities, and the one table of both.
 *
 * Every route of HTTP and every method of gRPC has an operation (net/http/http_operations.h,
 * net/grpc/grpc_methods.h). Types and pure functions only. Implemented in access_role.c. */
#ifndef TT_NET_ACCESS_ACCESS_ROLE_H
#define TT_NET_ACCESS_ACCESS_ROLE_H

#include <stdbool.h>
#include <stddef.h>

enum tt_operation {
    TT_OPERATION_HEALTH,   /* live and ready, of the server and of models */
    TT_OPERATION_UNKNOWN,  /* no such route: 404 */
    TT_OPERATION_METADATA, /* of the server and of models, configurations, reflection */
    TT_OPERATION_INFER,
    TT_OPERATION_READ,   /* statistics, metrics, index, settings, the live page */
    TT_OPERATION_MANAGE, /* load, unload, changes of settings */
    TT_OPERATION_DEBUG,  /* the trace of recent batches */
    TT_OPERATION_COUNT
};

enum tt_role { TT_ROLE_INFER, TT_ROLE_READ, TT_ROLE_ADMIN, TT_ROLE_COUNT };

const char *tt_operation_name(enum tt_operation operation);
/* "infer", "read", "admin". */
const char *tt_role_name(enum tt_role role);
/* False: there is no role of that name. */
bool tt_role_parse(const char *name, size_t length, enum tt_role *out_role);
/* True: every client may, without a token. */
bool tt_operation_is_open(enum tt_operation operation);
bool tt_role_may(enum tt_role role, enum tt_operation operation);
/* True: it belongs to the admin interface, where there is one. */
static inline bool tt_operation_is_management(enum tt_operation operation) {
    return operation == TT_OPERATION_MANAGE || operation == TT_OPERATION_DEBUG;
}

#endif
