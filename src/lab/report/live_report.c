#include "lab/report/live_report.h"

static json_t *spread(const struct tt_live_spread *self, double unit) {
    return json_pack("{s:I,s:f,s:f,s:f,s:f}", "count", (json_int_t)self->count, "mean",
                     (double)self->mean / unit, "p50", (double)self->p50 / unit, "p99",
                     (double)self->p99 / unit, "max", (double)self->maximum / unit);
}

static double mib(int64_t bytes) { return (double)bytes / (1024.0 * 1024.0); }

json_t *tt_live_report_json(const struct tt_live_figures *figures) {
    return json_pack(
        "{s:s,s:i,s:s,s:f,s:o,s:o,s:o,s:o,s:b,s:s,s:s,s:I}", "machine", figures->machine, "cores",
        figures->cores, "date", figures->date, "peak_memory_mib", mib(figures->peak_memory_bytes),
        "generator_lag_ms", spread(&figures->lag_ns, 1e6), "decision_late_ms",
        spread(&figures->decision_late_ns, 1e6), "start_late_ms",
        spread(&figures->start_late_ns, 1e6), "run_over_profile", spread(&figures->run_ppm, 1e6),
        "doubtful", figures->doubtful, "left_out", figures->left_out, "first_failure",
        figures->failure, "left_waiting", (json_int_t)figures->left_waiting);
}

void tt_live_report_place(const struct tt_live_figures *figures, struct tt_text *out) {
    tt_text_printf(out, "on %s, %d cores, %s\n", figures->machine, figures->cores, figures->date);
}

static void put_late(struct tt_text *out, const char *what, const struct tt_live_spread *spread) {
    if (spread->count > 0)
        tt_text_printf(out, "%s: mean %.3f ms, p99 %.3f ms, max %.3f ms (%lld)\n", what,
                       (double)spread->mean / 1e6, (double)spread->p99 / 1e6,
                       (double)spread->maximum / 1e6, (long long)spread->count);
}

void tt_live_report_table(const struct tt_live_figures *figures, struct tt_text *out) {
    tt_text_puts(out, "\n");
    put_late(out, "requests handed over late  ", &figures->lag_ns);
    put_late(out, "decisions taken after due  ", &figures->decision_late_ns);
    put_late(out, "tasks begun after they could", &figures->start_late_ns);
    if (figures->run_ppm.count > 0)
        tt_text_printf(out,
                       "tasks ran %.2f times as long as their profile says (p50 %.2f, p99 "
                       "%.2f)\n",
                       (double)figures->run_ppm.mean / 1e6, (double)figures->run_ppm.p50 / 1e6,
                       (double)figures->run_ppm.p99 / 1e6);
    if (figures->left_out[0])
        tt_text_printf(out, "simulated only, and not done here: %s\n", figures->left_out);
    if (figures->peak_memory_bytes > 0)
        tt_text_printf(out, "at most %.1f MiB resident, with the load and the program itself\n",
                       mib(figures->peak_memory_bytes));
    if (figures->left_waiting > 0)
        tt_text_printf(out,
                       "%lld requests were cancelled at the end: nothing happened to them any "
                       "more\n",
                       (long long)figures->left_waiting);
    if (figures->failure[0])
        tt_text_printf(out, "the first failure: %s\n", figures->failure);
    if (figures->doubtful)
        tt_text_puts(out,
                     "DOUBTFUL: the load generator fell behind (see the first line): latencies "
                     "are in part its own; fewer requests per second, or a machine with less "
                     "to do\n");
}
