#include "control/auto_contest.h"

#include "control/policy_trial.h"
#include "serve/domain.h"

static bool try_requests(const struct tt_auto_contest *self,
                         const struct tt_policy_candidate *candidate,
                         const struct tt_sim_arrival *arrivals, int32_t count,
                         struct tt_auto_half *out_half) {
    const struct tt_auto_view *view = self->view;
    struct tt_policy_trial trial = {.models = view->step_models,
                                    .model_count = view->model_count,
                                    .devices = view->choice.devices,
                                    .candidate = candidate,
                                    .depth = tt_domain_depth(candidate->policy->name, 0),
                                    .arrivals = arrivals,
                                    .arrival_count = count,
                                    .may_continue = self->may_continue,
                                    .context = self->context};
    struct tt_error ignored;
    if (self->begins)
        self->begins(self->context);
    return tt_policy_trial_run(&trial, out_half, &ignored) == TT_OK;
}

static struct tt_auto_result try_candidate(const struct tt_auto_contest *self,
                                           const struct tt_policy_candidate *candidate) {
    const struct tt_auto_view *view = self->view;
    struct tt_auto_result result = {0};
    int32_t all = view->arrival_count, middle = all / 2;
    result.is_valid =
        try_requests(self, candidate, view->arrivals, middle, &result.halves[0]) &&
        try_requests(self, candidate, view->arrivals + middle, all - middle, &result.halves[1]) &&
        try_requests(self, candidate, view->faster, all, &result.faster);
    return result;
}

void tt_auto_contest_run(const struct tt_auto_contest *self, struct tt_auto_result *out_results) {
    const struct tt_auto_choice *choice = &self->view->choice;
    for (int32_t i = 0; i < choice->candidate_count; i++)
        out_results[i] = try_candidate(self, &choice->candidates[i]);
}
