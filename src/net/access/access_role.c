#include "net/access/access_role.h"

#include "base/err.h"

#include <string.h>

enum {
    INFER = 1 << TT_ROLE_INFER,
    READ = 1 << TT_ROLE_READ,
    ADMIN = 1 << TT_ROLE_ADMIN,
    EVERY_ROLE = INFER | READ | ADMIN
};

/* SECURITY.md has the same table. */
static const struct {
    const char *name;
    unsigned roles;
    bool is_open;
} table[TT_OPERATION_COUNT] = {
    [TT_OPERATION_HEALTH] = {"health", EVERY_ROLE, .is_open = true},
    [TT_OPERATION_UNKNOWN] = {"unknown", EVERY_ROLE},
    [TT_OPERATION_METADATA] = {"metadata", EVERY_ROLE},
    [TT_OPERATION_INFER] = {"infer", INFER | ADMIN},
    [TT_OPERATION_READ] = {"read", READ | ADMIN},
    [TT_OPERATION_MANAGE] = {"manage", ADMIN},
    [TT_OPERATION_DEBUG] = {"debug", ADMIN},
};

static const char *const role_names[TT_ROLE_COUNT] = {
    [TT_ROLE_INFER] = "infer", [TT_ROLE_READ] = "read", [TT_ROLE_ADMIN] = "admin"};

const char *tt_operation_name(enum tt_operation operation) { return table[operation].name; }

const char *tt_role_name(enum tt_role role) { return role_names[role]; }

bool tt_role_parse(const char *name, size_t length, enum tt_role *out_role) {
    for (size_t i = 0; i < TT_COUNT(role_names); i++) {
        if (strlen(role_names[i]) != length || memcmp(role_names[i], name, length) != 0)
            continue;
        *out_role = (enum tt_role)i;
        return true;
    }
    return false;
}

bool tt_operation_is_open(enum tt_operation operation) { return table[operation].is_open; }

bool tt_role_may(enum tt_role role, enum tt_operation operation) {
    return (table[operation].roles & (1U << role)) != 0;
}
