#include "record/recorder_streams.h"

#include "multicore/threaded_policy.h"

#include <stdlib.h>

/* What each of its scheduler's threads reads goes into a stream of its own. */
static enum tt_err add_parties(struct tt_recorder *recorder, const struct tt_mechanism *mechanism,
                               struct tt_recorder_streams *self, struct tt_error *why) {
    struct tt_policy *policy = mechanism->policy;
    struct tt_record_party party = {.parties = tt_threaded_policy_parties(policy),
                                    .models = mechanism->model_capacity,
                                    .batches = mechanism->executor_capacity *
                                               mechanism->executors[0].depth};
    struct tt_turn_log **turn_logs = calloc((size_t)party.parties, sizeof(struct tt_turn_log *));
    self->parties = calloc((size_t)party.parties, sizeof(struct tt_recorder_stream *));
    enum tt_err err = turn_logs && self->parties
                          ? TT_OK
                          : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a recording");
    for (; !err && party.party < party.parties; party.party++) {
        err = tt_recorder_add_party(recorder, self->domain, &party, &self->parties[party.party],
                                    &turn_logs[party.party], why);
        self->party_count += !err;
    }
    if (!err)
        tt_threaded_policy_use_turn_logs(policy, turn_logs);
    free(turn_logs);
    return err;
}

enum tt_err tt_recorder_streams_add(struct tt_recorder *recorder, struct tt_mechanism *mechanism,
                                    const struct tt_record_domain *domain,
                                    struct tt_recorder_streams *out_streams, struct tt_error *why) {
    *out_streams = (struct tt_recorder_streams){0};
    enum tt_err err = tt_recorder_add(recorder, mechanism, domain, &out_streams->domain, why);
    return err || domain->scheduler_threads == 0
               ? err
               : add_parties(recorder, mechanism, out_streams, why);
}

void tt_recorder_streams_leave(struct tt_recorder_streams *self) {
    tt_recorder_leave(self->domain);
    for (int32_t p = 0; p < self->party_count; p++)
        tt_recorder_leave(self->parties[p]);
    free(self->parties);
    *self = (struct tt_recorder_streams){0};
}
