#include "cmd/serve_telemetry.h"

#include "base/clock.h"
#include "base/log/log.h"

#include <sys/random.h>

enum { ROOM_BYTES = 1 << 20 }; /* of a thread's records that are not sent yet: some 3000 requests */

static void say(void *context, enum tt_log_level level, const char *line) {
    tt_log_write(context, level, NULL, "%s", line);
}

/* Traces of all servers must differ; where the kernel has no random number, the clock is one. */
static uint64_t seed_of_ids(void) {
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
        seed = (uint64_t)tt_clock_wall();
    return seed;
}

enum tt_err tt_serve_telemetry_open(struct tt_serve_telemetry *self,
                                    const struct tt_serve_telemetry_flags *flags, int32_t writers,
                                    struct tt_log *log, struct tt_error *why) {
    *self = (struct tt_serve_telemetry){.exporter = NULL};
    if (!flags->otlp)
        return TT_OK;
    enum tt_err err =
        tt_tracer_init(&self->tracer, writers, ROOM_BYTES, flags->sample, seed_of_ids());
    const struct tt_otlp_options options = {.url = flags->otlp,
                                            .tracer = &self->tracer,
                                            .service_version = TUTTI_VERSION,
                                            .say = say,
                                            .say_context = log};
    if (err)
        err = tt_fail(err, why, "no memory for spans");
    else
        err = tt_otlp_exporter_open(&options, &self->exporter, why);
    if (err) {
        tt_tracer_fini(&self->tracer);
        return tt_fail_in(err, why, "--otlp");
    }
    return TT_OK;
}

void tt_serve_telemetry_close(struct tt_serve_telemetry *self) {
    tt_otlp_exporter_close(self->exporter);
    self->exporter = NULL;
    tt_tracer_fini(&self->tracer);
}

struct tt_tracer *tt_serve_telemetry_tracer(struct tt_serve_telemetry *self) {
    return self->exporter ? &self->tracer : NULL;
}

void tt_serve_telemetry_metrics(const void *telemetry, struct tt_text *page) {
    const struct tt_serve_telemetry *self = telemetry;
    if (self->grpc.append)
        self->grpc.append(self->grpc.context, page);
    if (self->cluster.append)
        self->cluster.append(self->cluster.context, page);
    if (self->exporter)
        tt_otlp_exporter_metrics(self->exporter, page);
}
