#include "profile/profile_keeper.h"

#include "base/array.h"
#include "model/text/textproto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tt_profile_keeper_init(struct tt_profile_keeper *self,
                            const struct tt_profile_file_origin *origin, const char *path) {
    tt_assert(origin->model_sha256 != NULL);
    tt_assert(origin->step_count >= 0);
    *self = (struct tt_profile_keeper){.origin = *origin};
    if (!path)
        return;
    snprintf(self->part, sizeof(self->part), "%s.part", path);
    ProtobufCMessage *message;
    struct tt_error why;
    if (tt_textproto_read_file(self->part, &tutti__profile__descriptor, NULL, &message, &why))
        return; /* there is none, or it cannot be read */
    struct tt_profile_subject subject = {.model_sha256 = origin->model_sha256,
                                         .device = origin->device,
                                         .stages = origin->stages ? origin->stages : ""};
    Tutti__Profile *before = (Tutti__Profile *)message;
    bool same = *before->model_sha256 && tt_profile_file_check(before, &subject, &why) == TT_OK &&
                before->n_step == (size_t)origin->step_count &&
                before->processors == (origin->executors > 1 ? origin->processors : 0) &&
                before->executors == (origin->executors > 1 ? origin->executors : 0);
    if (same)
        self->before = before;
    else
        protobuf_c_message_free_unpacked(message, NULL);
}

void tt_profile_keeper_fini(struct tt_profile_keeper *self) {
    if (self->before)
        protobuf_c_message_free_unpacked(&self->before->base, NULL);
    free(self->points);
    *self = (struct tt_profile_keeper){0};
}

static void add_points(struct tt_profile_keeper *self, const struct tt_calibration_point *points,
                       int32_t count) {
    if (!TT_ARRAY_RESERVE(self->points, &self->capacity, self->count + count)) {
        self->err = tt_fail(TT_ERR_NO_MEMORY, &self->why, "out of memory");
        return;
    }
    tt_assert(self->count + count <= self->capacity);
    for (int32_t i = 0; i < count; i++)
        self->points[self->count++] = points[i];
}

/* Shares in a file are exact in millionths; a damaged file's are measured again. */
static bool take_contention(const Tutti__ProfilePoint *from, struct tt_calibration_point *point) {
    const double shares[] = {from->demand, from->demand_low, from->demand_high};
    int32_t *ppm[] = {&point->demand_ppm, &point->demand_low_ppm, &point->demand_high_ppm};
    for (int32_t i = 0; i < 3; i++) {
        if (!(shares[i] >= 0 && shares[i] <= 1))
            return false;
        *ppm[i] = (int32_t)(shares[i] * TT_DEMAND_WHOLE + 0.5);
    }
    if (from->n_busy > TT_CALIBRATION_MAX_BUSY)
        return false;
    point->busy_count = (int32_t)from->n_busy;
    for (size_t i = 0; i < from->n_busy; i++)
        point->busy[i] = (struct tt_busy_times){.executors = from->busy[i]->executors,
                                                .runs = from->busy[i]->runs,
                                                .median_ns = from->busy[i]->latency_ns,
                                                .low_ns = from->busy[i]->low_ns,
                                                .high_ns = from->busy[i]->high_ns};
    return true;
}

static bool find(Tutti__ProfilePoint **from, size_t count, struct tt_calibration_point *point) {
    for (size_t i = 0; i < count; i++)
        if (from[i]->batch == point->batch && from[i]->length == point->length &&
            from[i]->runs > 0) {
            point->runs = from[i]->runs;
            point->median_ns = from[i]->latency_ns;
            point->low_ns = from[i]->low_ns;
            point->high_ns = from[i]->high_ns;
            return take_contention(from[i], point);
        }
    return false;
}

bool tt_profile_keeper_recall(struct tt_profile_keeper *self, struct tt_calibration_point *points,
                              int32_t count) {
    if (!self->before || count > 1 + (int32_t)self->before->n_step)
        return false;
    for (int32_t i = 0; i < count; i++) {
        int32_t step = points[i].step;
        tt_assert(step >= TT_CALIBRATION_WHOLE);
        tt_assert(step < (int32_t)self->before->n_step);
        bool known = step == TT_CALIBRATION_WHOLE
                         ? find(self->before->point, self->before->n_point, &points[i])
                         : find(self->before->step[step]->point, self->before->step[step]->n_point,
                                &points[i]);
        if (!known)
            return false;
    }
    self->recalled += count;
    add_points(self, points, count);
    return true;
}

void tt_profile_keeper_keep(struct tt_profile_keeper *self,
                            const struct tt_calibration_point *points, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        tt_assert(points[i].runs >= 1);
        tt_assert(points[i].low_ns <= points[i].median_ns);
        tt_assert(points[i].median_ns <= points[i].high_ns);
    }
    add_points(self, points, count);
    if (!*self->part || self->err)
        return;
    struct tt_text text;
    tt_text_init(&text);
    tt_profile_keeper_print(self, &text);
    self->err = tt_text_write_file(self->part, &text, &self->why);
    tt_text_fini(&text);
}

void tt_profile_keeper_print(const struct tt_profile_keeper *self, struct tt_text *out_text) {
    tt_profile_file_print(&self->origin, self->points, self->count, out_text);
}

void tt_profile_keeper_finished(struct tt_profile_keeper *self) {
    if (*self->part)
        unlink(self->part);
}
