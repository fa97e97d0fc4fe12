#include "cmd/outcome.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

int tt_outcome_code(enum tt_err err) {
    if (err == TT_ERR_CANCELLED)
        return EXIT_INTERRUPTED;
    bool usage = err == TT_ERR_INVALID || err == TT_ERR_NOT_FOUND || err == TT_ERR_UNSUPPORTED;
    return err == TT_OK ? EXIT_DONE : usage ? EXIT_USAGE : EXIT_FAILED;
}

int tt_outcome_print_error(const char *verb, enum tt_err err, const struct tt_error *why) {
    fprintf(stderr, "%s%s%s%s\n", verb ? "tutti " : "", verb ? verb : "", verb ? ": " : "",
            why->text);
    return tt_outcome_code(err);
}

volatile sig_atomic_t tt_interrupted;

void tt_on_interrupt(int signal_number) {
    (void)signal_number;
    tt_interrupted = 1;
}

void tt_outcome_catch_interrupt(void) {
    struct sigaction action = {.sa_handler = tt_on_interrupt};
    sigaction(SIGINT, &action, NULL);
}

void tt_outcome_catch_termination(void) {
    struct sigaction action = {.sa_handler = tt_on_interrupt};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

void tt_outcome_progress(void *context, int32_t finished, int32_t all) {
    (void)context;
    if (!isatty(STDERR_FILENO))
        return;
    int32_t filled = (int32_t)(INT64_C(40) * finished / all);
    fprintf(stderr, "\r[%.*s%*s] %d/%d%s", filled, "########################################",
            40 - filled, "", finished, all, finished == all ? "\n" : "");
}

void tt_outcome_print_json(json_t *take_value) {
    json_dumpf(take_value, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(take_value);
}

void tt_outcome_print_text(struct tt_text *take_text) {
    fputs(tt_text_string(take_text), stdout);
    tt_text_fini(take_text);
}
