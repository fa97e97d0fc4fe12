#include "policy/auto_policy.h"

#include "base/instant.h"

#include <string.h>

const char tt_auto_name[] = "auto";
const char tt_auto_summary[] =
    "the server chooses: it simulates the policies on the latest requests and takes the best";

enum { INTERVAL, WINDOW, GAIN, OPTION_COUNT };

static const struct tt_option_spec specs[OPTION_COUNT] = {
    [INTERVAL] = TT_DURATION_SPEC("interval", 100 * TT_MS, 3600 * TT_S, 30 * TT_S,
                                  "time from one comparison of the policies to the next; longer "
                                  "if comparing would take more than 2 % of a processor"),
    [WINDOW] = TT_DURATION_SPEC("window", TT_S, 600 * TT_S, 120 * TT_S,
                                "how far back the requests of a comparison go; also the least "
                                "time from one change of policy to the next"),
    [GAIN] = TT_PERMILLE_SPEC("gain", 10, 1000, 50,
                              "the least gain, in both halves of these requests, for which the "
                              "policy changes"),
};

bool tt_policy_is_auto(const char *name) { return strcmp(name, tt_auto_name) == 0; }

const struct tt_option_spec *tt_auto_option_specs(int32_t *out_count) {
    *out_count = OPTION_COUNT;
    return specs;
}

enum tt_err tt_auto_options_parse(const struct tt_option *options, int32_t option_count,
                                  struct tt_auto_options *out_options, struct tt_error *why) {
    int64_t values[OPTION_COUNT];
    enum tt_err err = tt_options_parse(specs, OPTION_COUNT, options, option_count, values, why);
    if (err)
        return err;
    *out_options = (struct tt_auto_options){.interval_ns = values[INTERVAL],
                                            .window_ns = values[WINDOW],
                                            .gain_permille = (int32_t)values[GAIN]};
    return TT_OK;
}

void tt_auto_choice_list(struct tt_auto_choice *self) {
    struct tt_policy_candidate all[TT_POLICY_MAX_CANDIDATES];
    int32_t count = tt_policy_candidates(&self->needs, all);
    self->candidate_count = 0;
    for (int32_t alone = 0; alone < 2; alone++)
        for (int32_t i = 0; i < count; i++)
            if (all[i].policy->traits.runs_alone == (alone == 1))
                self->candidates[self->candidate_count++] = all[i];
}

void tt_auto_choice_join(struct tt_auto_choice *self, const struct tt_auto_choice *other) {
    struct tt_auto_options *mine = &self->options;
    const struct tt_auto_options *its = &other->options;
    mine->interval_ns = tt_instant_min(mine->interval_ns, its->interval_ns);
    mine->window_ns = tt_instant_min(mine->window_ns, its->window_ns);
    if (its->gain_permille > mine->gain_permille)
        mine->gain_permille = its->gain_permille;
    tt_policy_needs_join(&self->needs, &other->needs);
    tt_auto_choice_list(self);
}
