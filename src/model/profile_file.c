#include "model/profile_file.h"

#include "model/textproto.h"
#include "profile.pb-c.h"

#include <stdlib.h>

/* Milliseconds in a file to ns; the one place where a profile's figure is a float. */
static enum tt_err to_ns(double ms, const char *field, int64_t *out_ns, struct tt_message *why) {
    if (!(ms >= 0 && ms <= 1e9))
        return tt_fail(TT_ERR_INVALID, why, "%s is %g; milliseconds from 0 to 1e9 are right", field,
                       ms);
    *out_ns = (int64_t)(ms * 1e6 + 0.5);
    return TT_OK;
}

static enum tt_err from_line(const Tutti__LinearProfile *line, int32_t max_batch,
                             struct tt_profile **out_profile, struct tt_message *why) {
    int64_t alpha_ns = 0, beta_ns = 0;
    enum tt_err err = to_ns(line->alpha_ms, "linear.alpha_ms", &alpha_ns, why);
    if (!err)
        err = to_ns(line->beta_ms, "linear.beta_ms", &beta_ns, why);
    if (!err)
        err = tt_profile_new_linear(alpha_ns, beta_ns, max_batch, out_profile, why);
    return err;
}

static enum tt_err from_points(const Tutti__Profile *message, int32_t max_batch,
                               struct tt_profile **out_profile, struct tt_message *why) {
    struct tt_profile_point *points = calloc(message->n_point + 1, sizeof(*points));
    if (!points)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err = TT_OK;
    for (size_t i = 0; !err && i < message->n_point; i++) {
        const Tutti__ProfilePoint *point = message->point[i];
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
        err = tt_profile_new_points(points, (int32_t)message->n_point, max_batch, out_profile, why);
    free(points);
    return err;
}

enum tt_err tt_profile_file_read(const char *path, int32_t max_batch,
                                 struct tt_profile **out_profile, struct tt_message *why) {
    ProtobufCMessage *base;
    enum tt_err err = tt_textproto_read_file(path, &tutti__profile__descriptor, &base, why);
    if (err)
        return err;
    const Tutti__Profile *message = (const Tutti__Profile *)base;
    int32_t largest = message->max_batch;
    for (size_t i = 0; message->max_batch == 0 && i < message->n_point; i++)
        largest = message->point[i]->batch > largest ? message->point[i]->batch : largest;
    if (max_batch == 0)
        max_batch = largest;
    if (message->linear && message->n_point)
        err = tt_fail(TT_ERR_INVALID, why, "has both points and a line; one of them is right");
    else if (message->linear)
        err = from_line(message->linear, max_batch, out_profile, why);
    else
        err = from_points(message, max_batch, out_profile, why);
    protobuf_c_message_free_unpacked(base, NULL);
    return err ? tt_fail_in(err, why, "%s", path) : TT_OK;
}

void tt_profile_file_print(const struct tt_profile_file_origin *origin,
                           const struct tt_profile_file_point *points, int32_t count,
                           struct tt_text *out_text) {
    tt_text_printf(out_text, "source: \"%s\"\ndevice: \"%s\"\ndate: \"%s\"\nmax_batch: %d\n",
                   origin->source, origin->device, origin->date, origin->max_batch);
    for (int32_t i = 0; i < count; i++) {
        const struct tt_profile_file_point *p = &points[i];
        tt_text_printf(out_text, "point { batch: %d latency_ns: %lld", p->batch,
                       (long long)p->latency_ns);
        if (p->length)
            tt_text_printf(out_text, " length: %d", p->length);
        tt_text_printf(out_text, " } # %d runs, p10 %lld ns, p90 %lld ns\n", p->runs,
                       (long long)p->low_ns, (long long)p->high_ns);
    }
}
