#include "policy/policy.h"

#include "base/text.h"
#include "policy/cellular.h"
#include "policy/clockwork.h"
#include "policy/deferred.h"
#include "policy/diversity.h"
#include "policy/elastic.h"
#include "policy/lazy.h"
#include "policy/merged.h"
#include "policy/nexus.h"
#include "policy/padded.h"
#include "policy/serial.h"
#include "policy/shepherd.h"
#include "policy/window.h"

#include <string.h>

static const struct tt_policy_kind *const kinds[] = {
    &tt_cellular_kind, &tt_clockwork_kind, &tt_deferred_kind, &tt_diversity_kind, &tt_eager_kind,
    &tt_elastic_kind,  &tt_lazy_kind,      &tt_merged_kind,   &tt_nexus_kind,     &tt_padded_kind,
    &tt_serial_kind,   &tt_shepherd_kind,  &tt_symphony_kind, &tt_timeout_kind,   &tt_window_kind,
};

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

enum tt_err tt_policy_create(struct tt_mechanism *mechanism, const char *name,
                             const struct tt_policy_setup *setup, struct tt_message *why) {
    tt_assert(setup->domain == mechanism);
    const struct tt_policy_kind *kind = tt_policy_find(name);
    if (!kind) {
        struct tt_text names;
        tt_text_init(&names);
        for (size_t i = 0; i < TT_COUNT(kinds); i++)
            tt_text_printf(&names, "%s%s", i ? ", " : "", kinds[i]->name);
        enum tt_err err = tt_fail(TT_ERR_NOT_FOUND, why, "no policy is called '%s'; there are: %s",
                                  name, tt_text_string(&names));
        tt_text_fini(&names);
        return err;
    }
    struct tt_policy *policy;
    int64_t values[TT_MAX_OPTIONS];
    enum tt_err err = tt_options_parse(kind->options, kind->option_count, setup->options,
                                       setup->option_count, values, why);
    if (!err)
        err = kind->create(setup, values, &policy, why);
    if (err)
        return tt_fail_in(err, why, "policy %s", name);
    tt_mechanism_attach(mechanism, kind->ops, policy);
    return TT_OK;
}

void tt_policy_destroy(struct tt_mechanism *mechanism) {
    if (mechanism->policy)
        mechanism->ops->free(mechanism->policy);
    mechanism->policy = NULL;
}
