/* The program: finds the verb and hands over. */
#include "cmd/verbs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct verb {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} verbs[] = {
    {"serve", "serve a model repository over HTTP", tt_cmd_serve},
    {"models", "check a model repository and explain every problem", tt_cmd_models},
    {"profile", "measure a model's latency per batch size", tt_cmd_profile},
    {"slice", "cut a model into stages that answer as the whole does", tt_cmd_slice},
    {"policies", "what there is to decide with, and the options of each", tt_cmd_policies},
    {"experiment", "run an experiment in virtual time and report", tt_cmd_experiment},
    {"replay", "run what a server recorded again, under its policy or another", tt_cmd_replay},
    {"reproduce", "run a paper's experiments: paper, ours, ratio, why", tt_cmd_reproduce},
    {"compare", "policies side by side along one parameter: who is best where", tt_cmd_compare},
    {"load", "load a server over HTTP, open loop, and report goodput and latencies", tt_cmd_load},
    {"top", "watch a server: models, rates, batches, goodput", tt_cmd_top},
    {"bench", "measure how fast the scheduler is on this machine", tt_cmd_bench},
};

static void print_help(FILE *out) {
    fprintf(
        out,
        "tutti %s: an inference server that batches requests so that they meet their deadlines\n"
        "\nUsage: tutti VERB [OPTIONS]      tutti VERB --help\n\nVerbs:\n",
        TUTTI_VERSION);
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        fprintf(out, "  %-12s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(out, "\nExit codes: 0 done; 1 it ran and failed, or what was asked for does not hold;\n"
                 "2 the request makes no sense; 130 interrupted.\n");
}

int main(int argc, char **argv) {
    /* Before anything else, while there is one thread: ONNX Runtime must not report home, and a
     * peer that closes its socket must not end the process. */
    setenv("ORT_DISABLE_TELEMETRY", "1", 1);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is told by write */
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("tutti %s\n", TUTTI_VERSION);
        return 0;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return 0;
    }
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    fprintf(stderr, "tutti: no verb is called '%s'; tutti --help lists them\n", argv[1]);
    return 2;
}
