#include "lab/plan/fleet_file.h"

#include "base/text.h"
#include "model/text/textproto.h"
#include "profile/profile_file.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0
#define MAX_MIB 1e8
#define MAX_RATE 1e7
#define MAX_PRICE 1e6
#define MAX_SLO_MS 86400000.0

struct reading {
    struct tt_fleet_file *file;
    const struct tt_textproto_places *places;
    const char *path;
    struct tt_error *why;
};

static enum tt_err wrong(const struct reading *r, const void *message, const char *field,
                         const char *format, ...) TT_PRINTF(4, 5);
static enum tt_err wrong(const struct reading *r, const void *message, const char *field,
                         const char *format, ...) {
    va_list args;
    va_start(args, format);
    enum tt_err err =
        tt_textproto_places_wrong(r->places, r->path, message, field, r->why, format, args);
    va_end(args);
    return err;
}

/* NaN is refused, too. */
static enum tt_err in_range(const struct reading *r, const void *message, const char *field,
                            double value, double low, double high) {
    if (value >= low && value <= high)
        return TT_OK;
    return wrong(r, message, field, "%s is %g; it must be %g .. %g", field, value, low, high);
}

/* ---- types ---- */

static int32_t type_named(const struct tt_fleet_file *file, const char *name) {
    for (int32_t t = 0; t < file->type_count; t++)
        if (strcmp(file->types[t].name, name) == 0)
            return t;
    return -1;
}

static enum tt_err take_type(const struct reading *r, const Tutti__FleetDevice *from) {
    struct tt_fleet_file *file = r->file;
    if (from->name[0] == '\0')
        return wrong(r, from, "name", "a type of device needs a name");
    if (type_named(file, from->name) >= 0)
        return wrong(r, from, "name", "device '%s' is given twice", from->name);
    enum tt_err err = in_range(r, from, "price_per_hour", from->price_per_hour, 1e-6, MAX_PRICE);
    if (!err)
        err = in_range(r, from, "memory_mib", from->memory_mib, 0, MAX_MIB);
    if (!err)
        err = in_range(r, from, "most", from->most, 0, 1 << 20);
    if (err)
        return err;
    file->types[file->type_count++] =
        (struct tt_fleet_type){.name = from->name,
                               .price_per_hour = from->price_per_hour,
                               .memory_bytes = (int64_t)(from->memory_mib * MIB),
                               .most = from->most};
    return TT_OK;
}

/* ---- models ---- */

static enum tt_err take_rates(const struct reading *r, const Tutti__FleetModel *from) {
    struct tt_fleet_file *file = r->file;
    if (from->n_rate_per_s == 0)
        return wrong(r, from, "rate_per_s",
                     "model '%s' has no rate_per_s; give one, or one an hour", from->name);
    for (size_t i = 0; i < from->n_rate_per_s; i++) {
        enum tt_err err = in_range(r, from, "rate_per_s", from->rate_per_s[i], 0, MAX_RATE);
        if (err)
            return err;
    }
    if (from->n_rate_per_s == 1)
        return TT_OK;
    if (from->n_rate_per_s > TT_FLEET_MAX_HOURS ||
        (file->hour_count > 1 && (size_t)file->hour_count != from->n_rate_per_s))
        return wrong(r, from, "rate_per_s",
                     "model '%s' has %zu values of rate_per_s; models have 1, or all the same "
                     "number of hours, at most %d%s",
                     from->name, from->n_rate_per_s, TT_FLEET_MAX_HOURS,
                     file->hour_count > 1 ? ", as the ones before it" : "");
    file->hour_count = (int32_t)from->n_rate_per_s;
    return TT_OK;
}

static enum tt_err refuse_type(const struct reading *r, const Tutti__FleetProfile *from,
                               const char *model) {
    struct tt_text names;
    tt_text_init(&names);
    for (int32_t t = 0; t < r->file->type_count; t++)
        tt_text_printf(&names, "%s'%.100s'", t ? ", " : "", r->file->types[t].name);
    enum tt_err err =
        wrong(r, from, "device", "there is no device '%s' for model '%s'; the file has %s",
              from->device, model, tt_text_string(&names));
    tt_text_fini(&names);
    return err;
}

static enum tt_err take_profile(const struct reading *r, const Tutti__FleetProfile *from,
                                struct tt_fleet_load *out) {
    int32_t type = type_named(r->file, from->device);
    if (type < 0)
        return refuse_type(r, from, out->name);
    if (out->on[type])
        return wrong(r, from, "device", "model '%s' has two profiles on '%s'", out->name,
                     from->device);
    if (!from->profile)
        return wrong(r, from, "profile", "model '%s' has no profile on '%s'", out->name,
                     from->device);
    struct tt_error inner;
    enum tt_err err = tt_profile_file_whole(from->profile, 0, &out->on[type], &inner);
    if (err == TT_ERR_INVALID)
        return wrong(r, from->profile, NULL, "%s", inner.text);
    if (err)
        return tt_fail(err, r->why, "%s", inner.text);
    int64_t one_ns = tt_profile_tail(out->on[type], 1, 0);
    if (one_ns <= out->slo_ns)
        return TT_OK;
    return wrong(r, from->profile, NULL,
                 "one request of model '%s' takes %g ms on '%s', more than its objective of %g ms; "
                 "leave that type out or raise slo_ms",
                 out->name, (double)one_ns / 1e6, from->device, (double)out->slo_ns / 1e6);
}

static enum tt_err take_model(const struct reading *r, const Tutti__FleetModel *from) {
    struct tt_fleet_file *file = r->file;
    for (int32_t m = 0; m < file->model_count; m++)
        if (strcmp(file->models[m].name, from->name) == 0)
            return wrong(r, from, "name", "model '%s' is given twice", from->name);
    if (from->name[0] == '\0')
        return wrong(r, from, "name", "a model needs a name");
    enum tt_err err = in_range(r, from, "slo_ms", from->slo_ms, 0.001, MAX_SLO_MS);
    if (!err)
        err = in_range(r, from, "static_mib", from->static_mib, 0, MAX_MIB);
    if (!err)
        err = in_range(r, from, "dynamic_mib", from->dynamic_mib, 0, MAX_MIB);
    if (!err)
        err = in_range(r, from, "dispersion", from->dispersion, 0, 1000);
    if (!err)
        err = take_rates(r, from);
    if (err)
        return err;
    struct tt_fleet_load *out = &file->models[file->model_count++];
    *out = (struct tt_fleet_load){.name = from->name,
                                  .slo_ns = (int64_t)(from->slo_ms * 1e6),
                                  .rates = from->rate_per_s,
                                  .rate_count = (int32_t)from->n_rate_per_s,
                                  .static_bytes = (int64_t)(from->static_mib * MIB),
                                  .dynamic_bytes = (int64_t)(from->dynamic_mib * MIB),
                                  .dispersion = from->dispersion};
    for (size_t i = 0; !err && i < from->n_on; i++)
        err = take_profile(r, from->on[i], out);
    if (err)
        return err;
    for (int32_t t = 0; t < file->type_count; t++) {
        int64_t memory = file->types[t].memory_bytes;
        if (out->on[t] && (memory == 0 || out->static_bytes + out->dynamic_bytes <= memory))
            return TT_OK;
    }
    if (from->n_on == 0)
        return wrong(r, from, "on", "no device can run model '%s': it needs a profile, on { }",
                     from->name);
    return wrong(r, from, "on",
                 "no device can run model '%s': it needs a profile on one with at least %g MiB",
                 from->name, from->static_mib + from->dynamic_mib);
}

static enum tt_err take_all(const struct reading *r) {
    const Tutti__Fleet *from = r->file->message;
    if (from->n_device < 1 || from->n_device > TT_FLEET_MAX_TYPES)
        return wrong(r, from, "device", "there are %zu types of device; there must be 1 .. %d",
                     from->n_device, TT_FLEET_MAX_TYPES);
    if (from->n_model < 1 || from->n_model > TT_FLEET_MAX_MODELS)
        return wrong(r, from, "model", "there are %zu models; there must be 1 .. %d", from->n_model,
                     TT_FLEET_MAX_MODELS);
    r->file->hour_count = 1;
    r->file->start_up_s = from->start_up_s;
    r->file->seed = from->seed;
    enum tt_err err = in_range(r, from, "start_up_s", from->start_up_s, 0, 86400);
    for (size_t i = 0; !err && i < from->n_device; i++)
        err = take_type(r, from->device[i]);
    for (size_t i = 0; !err && i < from->n_model; i++)
        err = take_model(r, from->model[i]);
    return err;
}

enum tt_err tt_fleet_file_open(const char *path, struct tt_fleet_file **out_file,
                               struct tt_error *why) {
    struct tt_textproto_places places;
    ProtobufCMessage *message;
    tt_textproto_places_init(&places);
    enum tt_err err =
        tt_textproto_read_file(path, &tutti__fleet__descriptor, &places, &message, why);
    if (!err) {
        struct tt_fleet_file *self = calloc(1, sizeof(*self));
        if (self) {
            self->message = (Tutti__Fleet *)message;
            struct reading reading = {.file = self, .places = &places, .path = path, .why = why};
            err = take_all(&reading);
        } else {
            protobuf_c_message_free_unpacked(message, NULL);
            err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
        }
        if (err)
            tt_fleet_file_close(self);
        else
            *out_file = self;
    }
    tt_textproto_places_fini(&places);
    return err;
}

void tt_fleet_file_close(struct tt_fleet_file *take_file) {
    if (!take_file)
        return;
    for (int32_t m = 0; m < take_file->model_count; m++)
        for (int32_t t = 0; t < take_file->type_count; t++)
            tt_profile_free(take_file->models[m].on[t]);
    protobuf_c_message_free_unpacked((ProtobufCMessage *)take_file->message, NULL);
    free(take_file);
}
