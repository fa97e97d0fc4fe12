#include "policy/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One line per policy, in alphabetical order. */
#define TT_POLICY_KINDS(X)                                                                         \
    X(adaptive)                                                                                    \
    X(cellular)                                                                                    \
    X(clockwork)                                                                                   \
    X(deferred)                                                                                    \
    X(diversity)                                                                                   \
    X(eager)                                                                                       \
    X(elastic)                                                                                     \
    X(lazy)                                                                                        \
    X(merged)                                                                                      \
    X(nexus)                                                                                       \
    X(padded)                                                                                      \
    X(serial)                                                                                      \
    X(shepherd)                                                                                    \
    X(symphony)                                                                                    \
    X(timeout)                                                                                     \
    X(window)

#define TT_DECLARE_KIND(name) extern const struct tt_policy_kind tt_##name##_kind;
TT_POLICY_KINDS(TT_DECLARE_KIND)

#define TT_LIST_KIND(name) &tt_##name##_kind,
static const struct tt_policy_kind *const kinds[] = {TT_POLICY_KINDS(TT_LIST_KIND)};

const struct tt_policy_kind *tt_policy_find(const char *name) {
    for (size_t i = 0; i < TT_COUNT(kinds); i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

int32_t tt_policy_count(void) { return (int32_t)TT_COUNT(kinds); }

const struct tt_policy_kind *tt_policy_at(int32_t index) {
    tt_assert(index >= 0 && index < tt_policy_count());
    return kinds[index];
}

const char *tt_policy_names(bool (*matches)(const struct tt_policy_kind *kind), char *out,
                            size_t capacity) {
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < TT_COUNT(kinds) && used < capacity; i++)
        if (!matches || matches(kinds[i]))
            used += (size_t)snprintf(out + used, capacity - used, "%s%s", used ? ", " : "",
                                     kinds[i]->name);
    return out;
}

bool tt_policy_is_by_cells(const struct tt_policy_kind *kind) {
    return tt_policy_runs_cells(&kind->traits);
}

enum tt_err tt_policy_create(struct tt_mechanism *mechanism, const char *name,
                             const struct tt_policy_setup *setup, struct tt_error *why) {
    tt_assert(setup->domain == mechanism);
    const struct tt_policy_kind *kind = tt_policy_find(name);
    char names[512];
    if (!kind)
        return tt_fail(TT_ERR_NOT_FOUND, why, "no policy is called '%s'; there are: %s", name,
                       tt_policy_names(NULL, names, sizeof(names)));
    struct tt_policy *policy = calloc(1, kind->state_bytes);
    struct tt_policy_setup own = *setup;
    own.kind = kind;
    int64_t values[TT_MAX_OPTIONS];
    enum tt_err err = tt_options_parse(kind->options, kind->option_count, setup->options,
                                       setup->option_count, values, why);
    if (!err)
        err = policy ? kind->init(policy, &own, values, why) : TT_ERR_NO_MEMORY;
    if (err == TT_ERR_NO_MEMORY)
        tt_fail(err, why, "out of memory for %d models and %d executors", mechanism->model_capacity,
                mechanism->executor_capacity);
    if (err) {
        if (policy)
            kind->ops->free(policy);
        return tt_fail_in(err, why, "policy %s", name);
    }
    tt_mechanism_attach(mechanism, kind->ops, &kind->traits, policy);
    return TT_OK;
}

void tt_policy_destroy(struct tt_mechanism *mechanism) {
    if (mechanism->policy)
        mechanism->ops->free(mechanism->policy);
    mechanism->policy = NULL;
}
