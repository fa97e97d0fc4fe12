#include "cmd/profile_table.h"

#include "base/instant.h"

static double ms(int64_t ns) { return (double)ns / 1e6; }

static double rows_per_s(const struct tt_calibration_point *point) {
    return point->median_ns > 0 ? point->batch * 1e9 / (double)point->median_ns : 0;
}

static bool is_shown(const struct tt_profile_table *self,
                     const struct tt_calibration_point *point) {
    return self->by_step == (point->step != TT_CALIBRATION_WHOLE);
}

static bool same_group(const struct tt_calibration_point *a, const struct tt_calibration_point *b) {
    return a->step == b->step && a->length == b->length;
}

static bool is_best(const struct tt_profile_table *self, const struct tt_calibration_point *point) {
    for (int32_t i = 0; i < self->count; i++)
        if (same_group(&self->points[i], point) && rows_per_s(&self->points[i]) > rows_per_s(point))
            return false;
    return true;
}

/* The largest measured batch of the group of which `times` runs fit in the objective; 0: none. */
static int32_t largest_within(const struct tt_profile_table *self,
                              const struct tt_calibration_point *group, int32_t times) {
    int32_t largest = 0;
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_calibration_point *point = &self->points[i];
        if (same_group(point, group) && point->median_ns <= self->slo_ns / times &&
            point->batch > largest)
            largest = point->batch;
    }
    return largest;
}

/* Whether it is the first shown point of its group. */
static bool begins_group(const struct tt_profile_table *self, int32_t index) {
    if (!is_shown(self, &self->points[index]))
        return false;
    for (int32_t i = 0; i < index; i++)
        if (same_group(&self->points[i], &self->points[index]))
            return false;
    return true;
}

/* "length 16", "cell encoder" or "": what the group is of. */
static const char *group_name(const struct tt_profile_table *self,
                              const struct tt_calibration_point *point, char *out,
                              size_t capacity) {
    out[0] = '\0';
    if (self->by_step)
        snprintf(out, capacity, "cell %s", self->step_names[point->step]);
    else if (point->length)
        snprintf(out, capacity, "length %d", point->length);
    return out;
}

/* --- for people --- */

static void put_objective(const struct tt_profile_table *self,
                          const struct tt_calibration_point *group, struct tt_text *out) {
    int32_t alone = largest_within(self, group, 1), behind = largest_within(self, group, 2);
    if (alone == 0)
        tt_text_printf(out, "objective %g ms: not even the smallest batch runs in time\n",
                       ms(self->slo_ns));
    else if (behind == 0)
        tt_text_printf(out,
                       "objective %g ms: the largest batch in time is %d, and none that must wait "
                       "for another batch of its size\n",
                       ms(self->slo_ns), alone);
    else
        tt_text_printf(out,
                       "objective %g ms: the largest batch in time is %d; %d if it must wait for "
                       "another batch of its size\n",
                       ms(self->slo_ns), alone, behind);
}

static bool has_contention(const struct tt_profile_table *self,
                           const struct tt_calibration_point *group) {
    for (int32_t i = 0; i < self->count; i++)
        if (same_group(&self->points[i], group) && self->points[i].busy_count > 0)
            return true;
    return false;
}

static double share(int32_t ppm) { return (double)ppm / TT_DEMAND_WHOLE; }

static void put_demand(const struct tt_calibration_point *point, struct tt_text *out) {
    if (point->demand_ppm > 0)
        tt_text_printf(out, " %8.2f %8.2f - %.2f\n", share(point->demand_ppm),
                       share(point->demand_low_ppm), share(point->demand_high_ppm));
    else
        tt_text_puts(out, "        -\n");
}

/* Copies on n executors alone slow each other down n times at most. */
static bool is_disturbed(const struct tt_calibration_point *point) {
    for (int32_t k = 0; k < point->busy_count; k++)
        if (point->busy[k].median_ns > point->median_ns * point->busy[k].executors * 11 / 10)
            return true;
    return false;
}

/* A row per batch and number of busy executors; the demand follows from the last of a batch. */
static void put_contention(const struct tt_profile_table *self,
                           const struct tt_calibration_point *group, struct tt_text *out) {
    bool disturbed = false;
    tt_text_printf(out, "%8s %10s %10s %9s %8s %15s\n", "batch", "executors", "p50 ms", "slowdown",
                   "demand", "p10 - p90");
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_calibration_point *point = &self->points[i];
        for (int32_t k = 0; same_group(point, group) && k < point->busy_count; k++) {
            const struct tt_busy_times *busy = &point->busy[k];
            tt_text_printf(out, "%8d %10d %10.3f %9.2f", point->batch, busy->executors,
                           ms(busy->median_ns), (double)busy->median_ns / (double)point->median_ns);
            if (k == point->busy_count - 1)
                put_demand(point, out);
            else
                tt_text_puts(out, "\n");
        }
        disturbed = disturbed || (same_group(point, group) && is_disturbed(point));
    }
    if (disturbed)
        tt_text_puts(out, "other programs used the processors: measure again when they do not\n");
}

void tt_profile_table_write(const struct tt_profile_table *self, struct tt_text *out) {
    char name[128];
    tt_text_printf(out, "%s on %s\n", self->model, self->device);
    for (int32_t g = 0; g < self->count; g++) {
        const struct tt_calibration_point *group = &self->points[g];
        if (!begins_group(self, g))
            continue;
        tt_text_printf(out, "\n%s%s%8s %10s %23s %12s\n",
                       group_name(self, group, name, sizeof(name)), name[0] ? "\n" : "", "batch",
                       "p50 ms", "p10 - p90 ms", "rows/s");
        for (int32_t i = 0; i < self->count; i++) {
            const struct tt_calibration_point *point = &self->points[i];
            if (same_group(point, group))
                tt_text_printf(out, "%8d %10.3f %10.3f - %10.3f %12.0f%s\n", point->batch,
                               ms(point->median_ns), ms(point->low_ns), ms(point->high_ns),
                               rows_per_s(point), is_best(self, point) ? "  best" : "");
        }
        if (self->slo_ns > 0 && !self->by_step)
            put_objective(self, group, out);
        if (has_contention(self, group))
            put_contention(self, group, out);
    }
}

/* --- for programs --- */

static json_t *busy_json(const struct tt_calibration_point *point) {
    json_t *all = json_array();
    for (int32_t k = 0; all && k < point->busy_count; k++) {
        const struct tt_busy_times *busy = &point->busy[k];
        json_array_append_new(all,
                              json_pack("{s:i,s:i,s:f,s:f,s:f}", "executors", busy->executors,
                                        "runs", busy->runs, "p50_ms", ms(busy->median_ns), "p10_ms",
                                        ms(busy->low_ns), "p90_ms", ms(busy->high_ns)));
    }
    return all;
}

static json_t *demand_json(const struct tt_calibration_point *point) {
    if (point->demand_ppm == 0)
        return json_null();
    return json_pack("{s:f,s:f,s:f}", "p50", share(point->demand_ppm), "p10",
                     share(point->demand_low_ppm), "p90", share(point->demand_high_ppm));
}

static json_t *point_json(const struct tt_profile_table *self,
                          const struct tt_calibration_point *point) {
    json_t *cell = self->by_step ? json_string(self->step_names[point->step]) : json_null();
    json_t *length = point->length ? json_integer(point->length) : json_null();
    return json_pack("{s:o,s:o,s:i,s:i,s:f,s:f,s:f,s:f,s:b,s:o,s:o}", "cell", cell, "length",
                     length, "batch", point->batch, "runs", point->runs, "p50_ms",
                     ms(point->median_ns), "p10_ms", ms(point->low_ns), "p90_ms",
                     ms(point->high_ns), "rows_per_s", rows_per_s(point), "best",
                     is_best(self, point), "busy", busy_json(point), "demand", demand_json(point));
}

static json_t *objective_json(const struct tt_profile_table *self,
                              const struct tt_calibration_point *group) {
    json_t *length = group->length ? json_integer(group->length) : json_null();
    return json_pack("{s:o,s:i,s:i}", "length", length, "batch", largest_within(self, group, 1),
                     "batch_behind_another", largest_within(self, group, 2));
}

json_t *tt_profile_table_json(const struct tt_profile_table *self) {
    json_t *points = json_array(), *objectives = json_array();
    for (int32_t i = 0; points && objectives && i < self->count; i++) {
        if (is_shown(self, &self->points[i]))
            json_array_append_new(points, point_json(self, &self->points[i]));
        if (self->slo_ns > 0 && !self->by_step && begins_group(self, i))
            json_array_append_new(objectives, objective_json(self, &self->points[i]));
    }
    return json_pack("{s:s,s:s,s:o,s:o,s:o}", "model", self->model, "device", self->device,
                     "slo_ms", self->slo_ns ? json_real(ms(self->slo_ns)) : json_null(), "points",
                     points, "within_slo", objectives);
}
