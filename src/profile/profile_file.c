#include "profile/profile_file.h"

#include "model/text/textproto.h"

#include <stdlib.h>
#include <string.h>

/* Milliseconds in a file to ns; the one place where a profile's figure is a float. */
static enum tt_err to_ns(double ms, const char *field, int64_t *out_ns, struct tt_error *why) {
    if (!(ms >= 0 && ms <= 1e9))
        return tt_fail(TT_ERR_INVALID, why, "%s is %g; milliseconds from 0 to 1e9 are right", field,
                       ms);
    *out_ns = (int64_t)(ms * 1e6 + 0.5);
    return TT_OK;
}

static enum tt_err from_line(const Tutti__LinearProfile *line, int32_t max_batch,
                             struct tt_profile **out_profile, struct tt_error *why) {
    int64_t alpha_ns = 0, beta_ns = 0;
    enum tt_err err = to_ns(line->alpha_ms, "linear.alpha_ms", &alpha_ns, why);
    if (!err)
        err = to_ns(line->beta_ms, "linear.beta_ms", &beta_ns, why);
    if (!err)
        err = tt_profile_new_linear(alpha_ns, beta_ns, max_batch, out_profile, why);
    return err;
}

static enum tt_err from_points(Tutti__ProfilePoint **from, size_t count, int32_t max_batch,
                               struct tt_profile **out_profile, struct tt_error *why) {
    struct tt_profile_point *points = calloc(count + 1, sizeof(*points));
    if (!points)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err = TT_OK;
    for (size_t i = 0; !err && i < count; i++) {
        const Tutti__ProfilePoint *point = from[i];
        if (!(point->demand >= 0 && point->demand <= 1))
            err = tt_fail(TT_ERR_INVALID, why,
                          "point %zu has demand %g; a share of the device from 0 to 1 is right",
                          i + 1, point->demand);
        points[i] =
            (struct tt_profile_point){.length = point->length,
                                      .batch = point->batch,
                                      .latency_ns = point->latency_ns,
                                      .demand_ppm = (int32_t)(point->demand * TT_DEMAND_WHOLE)};
    }
    if (!err)
        err = tt_profile_new_points(points, (int32_t)count, max_batch, out_profile, why);
    free(points);
    return err;
}

static int32_t largest_batch(const Tutti__Profile *message) {
    int32_t largest = message->max_batch;
    for (size_t i = 0; message->max_batch == 0 && i < message->n_point; i++)
        largest = message->point[i]->batch > largest ? message->point[i]->batch : largest;
    return largest;
}

static enum tt_err take_steps(struct tt_profile_file *self, int32_t max_batch,
                              struct tt_error *why) {
    const Tutti__Profile *message = self->message;
    self->steps = calloc(message->n_step + 1, sizeof(struct tt_profile *));
    if (!self->steps)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (size_t s = 0; s < message->n_step; s++) {
        enum tt_err err = from_points(message->step[s]->point, message->step[s]->n_point, max_batch,
                                      &self->steps[s], why);
        if (err)
            return tt_fail_in(err, why, "step %zu", s);
        self->step_count++;
    }
    return TT_OK;
}

enum tt_err tt_profile_file_open(const char *path, int32_t max_batch,
                                 struct tt_profile_file **out_file, struct tt_error *why) {
    ProtobufCMessage *base;
    enum tt_err err = tt_textproto_read_file(path, &tutti__profile__descriptor, &base, why);
    if (err)
        return err;
    struct tt_profile_file *self = calloc(1, sizeof(*self));
    if (!self) {
        protobuf_c_message_free_unpacked(base, NULL);
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", path);
    }
    const Tutti__Profile *message = self->message = (Tutti__Profile *)base;
    if (max_batch == 0)
        max_batch = largest_batch(message);
    if (message->linear && message->n_point)
        err = tt_fail(TT_ERR_INVALID, why, "has both points and a line; one of them is right");
    else if (message->linear)
        err = from_line(message->linear, max_batch, &self->whole, why);
    else
        err = from_points(message->point, message->n_point, max_batch, &self->whole, why);
    if (!err)
        err = take_steps(self, max_batch, why);
    if (err) {
        tt_profile_file_close(self);
        return tt_fail_in(err, why, "%s", path);
    }
    *out_file = self;
    return TT_OK;
}

void tt_profile_file_close(struct tt_profile_file *take_file) {
    if (!take_file)
        return;
    for (int32_t s = 0; s < take_file->step_count; s++)
        tt_profile_free(take_file->steps[s]);
    free(take_file->steps);
    tt_profile_free(take_file->whole);
    protobuf_c_message_free_unpacked(&take_file->message->base, NULL);
    free(take_file);
}

enum tt_err tt_profile_file_check(const Tutti__Profile *message,
                                  const struct tt_profile_subject *subject, struct tt_error *why) {
    if (!*message->model_sha256)
        return TT_OK;
    if (strcmp(message->model_sha256, subject->model_sha256) != 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "it was measured of another model file (%.12s..., this "
                       "one is %.12s...)",
                       message->model_sha256, subject->model_sha256);
    if (strcmp(message->device, subject->device) != 0)
        return tt_fail(TT_ERR_INVALID, why, "it was measured on '%s', and this is '%s'",
                       message->device, subject->device);
    if (strcmp(message->stages, subject->stages) != 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "it was measured of the model cut as '%s', and it is now '%s'",
                       *message->stages ? message->stages : "whole",
                       *subject->stages ? subject->stages : "whole");
    return TT_OK;
}

/* ---- writing ---- */

int32_t tt_profile_file_preferred(const struct tt_profile_file_point *points, int32_t count,
                                  int32_t step) {
    const struct tt_profile_file_point *best = NULL, *first = NULL;
    for (int32_t i = 0; i < count; i++) {
        const struct tt_profile_file_point *p = &points[i];
        first = first || p->step != step ? first : p;
        if (p->step == step && p->length == first->length &&
            (!best || p->latency_ns * best->batch < best->latency_ns * p->batch))
            best = p;
    }
    int32_t preferred = best ? best->batch : 0;
    for (int32_t i = 0; i < count && best; i++) {
        const struct tt_profile_file_point *p = &points[i];
        /* p / p.batch <= 1.1 best / best.batch */
        if (p->step == step && p->length == first->length && p->batch < preferred &&
            p->latency_ns * best->batch <= (best->latency_ns + best->latency_ns / 10) * p->batch)
            preferred = p->batch;
    }
    return preferred;
}

static void put_points(const struct tt_profile_file_point *points, int32_t count, int32_t step,
                       const char *indent, struct tt_text *to) {
    for (int32_t i = 0; i < count; i++) {
        const struct tt_profile_file_point *p = &points[i];
        if (p->step != step)
            continue;
        tt_text_printf(to, "%spoint { batch: %d latency_ns: %lld", indent, p->batch,
                       (long long)p->latency_ns);
        if (p->length)
            tt_text_printf(to, " length: %d", p->length);
        tt_text_printf(to, " runs: %d low_ns: %lld high_ns: %lld }\n", p->runs,
                       (long long)p->low_ns, (long long)p->high_ns);
    }
}

void tt_profile_file_print(const struct tt_profile_file_origin *origin,
                           const struct tt_profile_file_point *points, int32_t count,
                           struct tt_text *out_text) {
    tt_text_puts(out_text, "source: ");
    tt_textproto_put_string(out_text, origin->source);
    tt_text_puts(out_text, "\ndevice: ");
    tt_textproto_put_string(out_text, origin->device);
    tt_text_printf(out_text, "\ndate: \"%s\"\nmax_batch: %d\n", origin->date, origin->max_batch);
    if (origin->model_sha256)
        tt_text_printf(out_text, "model_sha256: \"%s\"\n", origin->model_sha256);
    if (origin->stages) {
        tt_text_puts(out_text, "stages: ");
        tt_textproto_put_string(out_text, origin->stages);
        tt_text_puts(out_text, "\n");
    }
    int32_t preferred = tt_profile_file_preferred(points, count, -1);
    if (preferred)
        tt_text_printf(out_text, "preferred_batch: %d\n", preferred);
    put_points(points, count, -1, "", out_text);
    for (int32_t s = 0; s < origin->step_count; s++) {
        tt_text_puts(out_text, "step {\n  name: ");
        tt_textproto_put_string(out_text, origin->step_names[s]);
        tt_text_printf(out_text, "\n  preferred_batch: %d\n",
                       tt_profile_file_preferred(points, count, s));
        put_points(points, count, s, "  ", out_text);
        tt_text_puts(out_text, "}\n");
    }
}
