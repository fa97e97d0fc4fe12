#include "profile/memory_probe.h"

#include "engine/synthetic_input.h"
#include "profile/calibrate.h"
#include "profile/machine.h"

/* Pages of other threads may come between two looks at the memory. */
enum { PEAK_SLACK_BYTES = 1 << 20 };

static int64_t grown(int64_t from, int64_t to) { return to > from ? to - from : 0; }

void tt_memory_probe_begin(struct tt_memory_probe *self) {
    tt_machine_forget_peak_memory();
    *self = (struct tt_memory_probe){.before = tt_machine_private_memory()};
}

void tt_memory_probe_loaded(struct tt_memory_probe *self, int64_t weight_bytes) {
    tt_machine_forget_peak_memory();
    self->static_bytes = grown(self->before, tt_machine_private_memory());
    if (self->static_bytes < weight_bytes)
        self->static_bytes = weight_bytes;
}

/* `out_before`: what is resident when only the inputs exist. */
static enum tt_err run(struct tt_engine_model *model, int32_t rows, int32_t length,
                       int64_t *out_before, struct tt_error *why) {
    struct tt_synthetic_input zeros;
    int64_t ns;
    enum tt_err err = tt_synthetic_input_init(&zeros, model->engine->ops->signature(model), 0, rows,
                                              length, TT_SYNTHETIC_INPUT_ZEROS, why);
    if (err)
        return err;
    tt_machine_forget_peak_memory();
    *out_before = tt_machine_resident_memory();
    if (tt_machine_peak_memory() > *out_before + PEAK_SLACK_BYTES)
        err = tt_fail(TT_ERR_UNSUPPORTED, why,
                      "/proc/self/clear_refs does not reset the peak of resident memory");
    if (!err)
        err = tt_calibrate_run(model, rows, zeros.views, &ns, why);
    tt_synthetic_input_fini(&zeros);
    return err;
}

/* The first run reads the runtime's code, which is resident but not private. */
enum tt_err tt_memory_probe_run(struct tt_engine_model *model, int32_t rows, int32_t length,
                                int64_t *out_dynamic_bytes, struct tt_error *why) {
    int64_t resident, before = tt_machine_private_memory();
    enum tt_err err = run(model, 1, length, &resident, why);
    if (err)
        return err;
    tt_machine_forget_peak_memory();
    int64_t kept = grown(before, tt_machine_private_memory());
    err = run(model, rows, length, &resident, why);
    if (!err)
        *out_dynamic_bytes = kept + grown(resident, tt_machine_peak_memory());
    return err;
}
