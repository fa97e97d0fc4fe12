#include "profile/profile_file.h"

#include "model/text/textproto.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MAX_BATCH = 512 };

/* Milliseconds in a file to ns; only here is a profile's figure a float. */
static enum tt_err to_ns(double ms, const char *field, int64_t *out_ns, struct tt_error *why) {
    if (!(ms >= 0 && ms <= 1e9))
        return tt_fail(TT_ERR_INVALID, why, "%s is %g; it must be 0 .. 1e9 milliseconds", field,
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

/* Above 1 or below 0: -1, which the profile's maker reports. */
static int32_t to_ppm(double share) {
    double ppm = share * TT_DEMAND_WHOLE;
    return ppm >= 0 && ppm <= TT_DEMAND_WHOLE ? (int32_t)(ppm + 0.5) : -1;
}

static enum tt_err from_points(Tutti__ProfilePoint **from, size_t count, int32_t max_batch,
                               struct tt_profile **out_profile, struct tt_error *why) {
    struct tt_profile_builder builder = {0};
    for (size_t i = 0; i < count; i++) {
        tt_profile_builder_add(&builder,
                               (struct tt_profile_point){.length = from[i]->length,
                                                         .batch = from[i]->batch,
                                                         .latency_ns = from[i]->latency_ns,
                                                         .demand_ppm = to_ppm(from[i]->demand)});
    }
    return tt_profile_builder_finish(&builder, max_batch, out_profile, why);
}

static enum tt_err to_bytes(double mib, const char *field, int64_t *out_bytes,
                            struct tt_error *why) {
    const double most = (double)TT_PROFILE_MAX_BYTES / 0x100000;
    if (!(mib >= 0 && mib <= most))
        return tt_fail(TT_ERR_INVALID, why, "%s is %g; it must be 0 .. %.0f MiB", field, mib, most);
    *out_bytes = (int64_t)(mib * 0x100000);
    return TT_OK;
}

static enum tt_err run_times(const Tutti__Profile *message, int32_t max_batch,
                             struct tt_profile **out_profile, struct tt_error *why) {
    if ((message->linear != NULL) == (message->n_point > 0))
        return tt_fail(TT_ERR_INVALID, why,
                       "a profile needs either linear { alpha_ms beta_ms } or points");
    if (max_batch == 0)
        max_batch = message->max_batch;
    if (message->linear)
        return from_line(message->linear, max_batch > 0 ? max_batch : DEFAULT_MAX_BATCH,
                         out_profile, why);
    return from_points(message->point, message->n_point, max_batch, out_profile, why);
}

enum tt_err tt_profile_file_whole(const Tutti__Profile *message, int32_t max_batch,
                                  struct tt_profile **out_profile, struct tt_error *why) {
    int64_t static_bytes = 0, dynamic_bytes = 0;
    enum tt_err err = to_bytes(message->static_mib, "static_mib", &static_bytes, why);
    if (!err)
        err = to_bytes(message->dynamic_mib, "dynamic_mib", &dynamic_bytes, why);
    if (!err)
        err = run_times(message, max_batch, out_profile, why);
    if (err)
        return err;
    (*out_profile)->static_bytes = static_bytes;
    (*out_profile)->dynamic_bytes = dynamic_bytes;
    return TT_OK;
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
    enum tt_err err = tt_textproto_read_file(path, &tutti__profile__descriptor, NULL, &base, why);
    if (err)
        return err;
    struct tt_profile_file *self = calloc(1, sizeof(*self));
    if (!self) {
        protobuf_c_message_free_unpacked(base, NULL);
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", path);
    }
    self->message = (Tutti__Profile *)base;
    err = tt_profile_file_whole(self->message, max_batch, &self->whole, why);
    if (!err)
        err = take_steps(self, self->whole->max_batch, why);
    if (err) {
        tt_profile_file_close(self);
        return tt_fail_in(err, why, "%s", path);
    }
    for (int32_t s = 0; s < self->step_count; s++)
        tt_assert(self->steps[s]->max_batch == self->whole->max_batch);
    *out_file = self;
    return TT_OK;
}

void tt_profile_file_close(struct tt_profile_file *take_file) {
    if (!take_file)
        return;
    tt_assert(take_file->step_count == 0 || take_file->steps);
    for (int32_t s = 0; s < take_file->step_count; s++)
        tt_profile_free(take_file->steps[s]);
    free(take_file->steps);
    tt_profile_free(take_file->whole);
    protobuf_c_message_free_unpacked(&take_file->message->base, NULL);
    free(take_file);
}

enum tt_err tt_profile_file_memory(const char *path, int64_t *out_static_bytes,
                                   int64_t *out_dynamic_bytes, struct tt_error *why) {
    struct tt_profile_file *file;
    enum tt_err err = tt_profile_file_open(path, 0, &file, why);
    if (err)
        return err;
    *out_static_bytes = file->whole->static_bytes;
    *out_dynamic_bytes = file->whole->dynamic_bytes;
    tt_profile_file_close(file);
    return TT_OK;
}

bool tt_profile_file_demand_is_elsewhere(const struct tt_profile_file *self, int32_t processors) {
    return self->message->processors > 0 && self->message->processors != processors;
}

static void forget_demand(struct tt_profile *profile) {
    int64_t count = (int64_t)profile->length_count * (profile->max_batch + 1);
    for (int64_t i = 0; i < count; i++)
        profile->demand_ppm[i] = TT_DEMAND_WHOLE;
    profile->knows_demand = false;
}

void tt_profile_file_forget_demand(struct tt_profile_file *self) {
    forget_demand(self->whole);
    for (int32_t s = 0; s < self->step_count; s++)
        forget_demand(self->steps[s]);
}

enum tt_err tt_profile_file_check_origin(const char *model_sha256, const char *device,
                                         const char *wanted_sha256, const char *wanted_device,
                                         struct tt_error *why) {
    if (strcmp(model_sha256, wanted_sha256) != 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "it was measured of another model file (%.12s..., this one is %.12s...)",
                       model_sha256, wanted_sha256);
    if (wanted_device && strcmp(device, wanted_device) != 0)
        return tt_fail(TT_ERR_INVALID, why, "it was measured on '%s', and this is '%s'", device,
                       wanted_device);
    return TT_OK;
}

enum tt_err tt_profile_file_check(const Tutti__Profile *message,
                                  const struct tt_profile_subject *subject, struct tt_error *why) {
    tt_assert(subject->model_sha256 != NULL);
    tt_assert(subject->stages != NULL);
    if (!*message->model_sha256)
        return TT_OK;
    enum tt_err err = tt_profile_file_check_origin(message->model_sha256, message->device,
                                                   subject->model_sha256, subject->device, why);
    if (err)
        return err;
    if (strcmp(message->stages, subject->stages) != 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "it was measured of the model cut as '%s', and it is now '%s'",
                       *message->stages ? message->stages : "whole",
                       *subject->stages ? subject->stages : "whole");
    return TT_OK;
}

/* ---- writing ---- */

int32_t tt_profile_file_preferred(const struct tt_calibration_point *points, int32_t count,
                                  int32_t step) {
    const struct tt_calibration_point *best = NULL, *first = NULL;
    for (int32_t i = 0; i < count; i++) {
        const struct tt_calibration_point *p = &points[i];
        first = first || p->step != step ? first : p;
        if (p->step == step && p->length == first->length &&
            (!best || p->median_ns * best->batch < best->median_ns * p->batch))
            best = p;
    }
    int32_t preferred = best ? best->batch : 0;
    for (int32_t i = 0; i < count && best; i++) {
        const struct tt_calibration_point *p = &points[i];
        /* the test is p / p.batch <= 1.1 best / best.batch */
        if (p->step == step && p->length == first->length && p->batch < preferred &&
            p->median_ns * best->batch <= (best->median_ns + best->median_ns / 10) * p->batch)
            preferred = p->batch;
    }
    tt_assert(!best || preferred <= best->batch);
    return preferred;
}

/* Six decimals: a file says what was measured, in millionths. */
static void put_share(const char *name, int32_t ppm, struct tt_text *to) {
    tt_text_printf(to, " %s: %d.%06d", name, ppm / TT_DEMAND_WHOLE, ppm % TT_DEMAND_WHOLE);
}

static void put_mib(const char *name, int64_t bytes, struct tt_text *to) {
    if (bytes > 0)
        tt_text_printf(to, "%s: %.3f\n", name, (double)bytes / 0x100000);
}

static void put_contention(const struct tt_calibration_point *point, struct tt_text *to) {
    if (point->demand_ppm > 0) {
        put_share("demand", point->demand_ppm, to);
        put_share("demand_low", point->demand_low_ppm, to);
        put_share("demand_high", point->demand_high_ppm, to);
    }
    for (int32_t i = 0; i < point->busy_count; i++) {
        const struct tt_busy_times *busy = &point->busy[i];
        tt_text_printf(to,
                       " busy { executors: %d latency_ns: %lld runs: %d low_ns: %lld high_ns: "
                       "%lld }",
                       busy->executors, (long long)busy->median_ns, busy->runs,
                       (long long)busy->low_ns, (long long)busy->high_ns);
    }
}

static void put_points(const struct tt_calibration_point *points, int32_t count, int32_t step,
                       const char *indent, struct tt_text *to) {
    for (int32_t i = 0; i < count; i++) {
        const struct tt_calibration_point *p = &points[i];
        if (p->step != step)
            continue;
        tt_text_printf(to, "%spoint { batch: %d latency_ns: %lld", indent, p->batch,
                       (long long)p->median_ns);
        if (p->length)
            tt_text_printf(to, " length: %d", p->length);
        tt_text_printf(to, " runs: %d low_ns: %lld high_ns: %lld", p->runs, (long long)p->low_ns,
                       (long long)p->high_ns);
        put_contention(p, to);
        tt_text_puts(to, " }\n");
    }
}

void tt_profile_file_print(const struct tt_profile_file_origin *origin,
                           const struct tt_calibration_point *points, int32_t count,
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
    if (origin->executors > 1)
        tt_text_printf(out_text, "processors: %d\nexecutors: %d\n", origin->processors,
                       origin->executors);
    put_mib("static_mib", origin->static_bytes, out_text);
    put_mib("dynamic_mib", origin->dynamic_bytes, out_text);
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
