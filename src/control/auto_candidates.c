#include "control/auto_candidates.h"

#include "control/placing_check.h"
#include "policy/auto_policy.h"
#include "serve/served_model_state.h"

#include <stdlib.h>

/* Of policies that are equally good the first candidate is chosen: one that decides without run
 * times, then the others. One that never batches is the last, since it has nothing left for more
 * load. */
enum { LAST_RANK = 2 };
static int32_t rank_of(const struct tt_policy_kind *kind) {
    return kind->traits.runs_alone ? LAST_RANK : kind->traits.needs_profiles ? 1 : 0;
}

static bool is_candidate(const struct tt_policy_kind *kind, const struct tt_repository_model *model,
                         const struct tt_served_model *served) {
    struct tt_placing placing = {0};
    struct tt_error ignored;
    tt_placing_choose(&placing, model, kind->name);
    bool is_simulated = !tt_policy_is_by_cells(kind) && !kind->traits.waits_for_inputs;
    bool has_steps =
        kind->traits.granularity != TT_GRANULARITY_STAGE || served->step_model.step_count > 1;
    /* The rules of the queue would be others. */
    bool keeps_rules = !tt_placing_has(&placing, kind->serving.computes_late);
    return is_simulated && has_steps && keeps_rules &&
           tt_placing_check_model(&placing, model, &ignored) == TT_OK &&
           tt_placing_check_served(&placing, served, model->settings, &ignored) == TT_OK;
}

static enum tt_err read_options(const struct tt_repository_model *model,
                                struct tt_auto_options *out_options, struct tt_error *why) {
    const Tutti__ModelPolicy *policy = model->settings->message->policy;
    struct tt_option options[TT_MAX_OPTIONS];
    int32_t count = 0;
    for (; count < (int32_t)policy->n_option && count < TT_MAX_OPTIONS; count++)
        options[count] = (struct tt_option){.key = policy->option[count]->key,
                                            .value = policy->option[count]->value};
    return tt_auto_options_parse(options, count, out_options, why);
}

enum tt_err tt_auto_candidates_find(const struct tt_repository_model *model,
                                    struct tt_served_model *served, struct tt_error *why) {
    served->recent = tt_model_stats_recent(served->stats);
    served->choice = calloc(1, sizeof(*served->choice));
    if (!served->recent || !served->choice)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    struct tt_auto_choice *choice = served->choice;
    for (int32_t rank = 0; rank <= LAST_RANK; rank++)
        for (int32_t p = 0; p < tt_policy_count(); p++)
            if (choice->candidate_count < TT_AUTO_MAX_CANDIDATES &&
                rank_of(tt_policy_at(p)) == rank && is_candidate(tt_policy_at(p), model, served))
                choice->candidates[choice->candidate_count++] = tt_policy_at(p);
    return read_options(model, &choice->options, why);
}
