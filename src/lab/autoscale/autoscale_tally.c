#include "lab/autoscale/autoscale_tally.h"

#include "lab/scenario/allocate.h"
#include "scale/devices_wanted.h"

void tt_autoscale_tally_init(struct tt_autoscale_tally *self, int32_t step_count,
                             int32_t model_count) {
    size_t steps = (size_t)step_count, models = (size_t)model_count;
    *self = (struct tt_autoscale_tally){
        .result = {.points = tt_allocate(steps, sizeof(*self->result.points)),
                   .good_per_s = tt_allocate(steps * models, sizeof(float)),
                   .model_count = model_count}};
}

struct tt_autoscale_point *tt_autoscale_tally_point(struct tt_autoscale_tally *self) {
    return &self->result.points[self->result.point_count];
}

float *tt_autoscale_tally_good(struct tt_autoscale_tally *self) {
    return self->result.good_per_s +
           (size_t)self->result.point_count * (size_t)self->result.model_count;
}

void tt_autoscale_tally_add(struct tt_autoscale_tally *self, const struct tt_fleet_count *count) {
    const struct tt_autoscale_point *point = tt_autoscale_tally_point(self);
    int64_t ended = count->ok + count->bad;
    self->result.arrived += count->arrived;
    *(point->settling ? &self->settling_bad : &self->settled_bad) += count->bad;
    *(point->settling ? &self->settling_all : &self->settled_all) += ended;
    self->settled_steps += !point->settling;
    self->bad_steps += !point->settling && point->bad > TT_DEVICES_BAD_SHARE;
    self->result.mean_up += point->up;
    self->result.mean_used += point->used;
    self->server_bad += point->server_bad * point->offered_per_s;
    self->server_all += point->offered_per_s;
    self->result.mean_servers += point->servers;
    if (point->fewest > 0) {
        self->searched_up += point->up;
        self->searched_used += point->used;
        self->searched_servers += point->servers;
        self->searched_fewest += point->fewest;
    }
    self->result.point_count++;
}

static double share(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

void tt_autoscale_tally_conclude(struct tt_autoscale_tally *self,
                                 struct tt_autoscale_result *out_result) {
    struct tt_autoscale_result *result = &self->result;
    int32_t steps = result->point_count > 0 ? result->point_count : 1;
    result->bad =
        share(self->settled_bad + self->settling_bad, self->settled_all + self->settling_all);
    result->bad_settled = share(self->settled_bad, self->settled_all);
    result->bad_settling = share(self->settling_bad, self->settling_all);
    result->settled_share = (double)self->settled_steps / steps;
    result->bad_steps = share(self->bad_steps, self->settled_steps);
    result->mean_up /= steps;
    result->mean_used /= steps;
    result->mean_servers /= steps;
    result->over_fewest = share(self->searched_up, self->searched_fewest);
    result->used_over_fewest = share(self->searched_used, self->searched_fewest);
    result->servers_over_fewest = share(self->searched_servers, self->searched_fewest);
    result->server_bad = self->server_all > 0 ? self->server_bad / self->server_all : 0;
    *out_result = *result;
}
