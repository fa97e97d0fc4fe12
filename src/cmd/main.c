/* The program: finds the verb, reads its flags, and runs it. */
#include "cmd/flags.h"
#include "cmd/outcome.h"
#include "cmd/verbs.h"
#include "lab/scenario/allocate.h"
#include "model/text/textproto.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tt_verb *const verbs[] = {
    &tt_verb_serve,      &tt_verb_models, &tt_verb_profile,   &tt_verb_slice,   &tt_verb_policies,
    &tt_verb_experiment, &tt_verb_replay, &tt_verb_reproduce, &tt_verb_compare, &tt_verb_plan,
    &tt_verb_place,      &tt_verb_load,   &tt_verb_token,     &tt_verb_top,     &tt_verb_bench,
    &tt_verb_cluster,    &tt_verb_chaos,  &tt_verb_autoscale,
};

static void print_help(FILE *out) {
    fprintf(
        out,
        "tutti %s: an inference server that batches requests so that they meet their deadlines\n"
        "\nUsage: tutti VERB [OPTIONS]      tutti VERB --help\n\nVerbs:\n",
        TUTTI_VERSION);
    for (size_t i = 0; i < TT_COUNT(verbs); i++)
        fprintf(out, "  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
    fprintf(out, "\nExit codes: 0 success; 1 the work failed, or a required condition does not "
                 "hold;\n2 usage error; 130 interrupted.\n");
}

static const struct tt_verb *find(const char *name) {
    for (size_t i = 0; i < TT_COUNT(verbs); i++)
        if (strcmp(name, verbs[i]->name) == 0)
            return verbs[i];
    return NULL;
}

/* Candidates for the last of the words behind the program's name; for packaging/completion. */
static int complete(int count, char **words) {
    const struct tt_verb *verb = count > 1 ? find(words[0]) : NULL;
    if (verb)
        tt_flags_complete(verb, words + 1, count - 1);
    for (size_t i = 0; count <= 1 && i < TT_COUNT(verbs); i++)
        printf("%s\t%s\n", verbs[i]->name, verbs[i]->summary);
    if (count <= 1)
        printf("--help\tprint the verbs\n--version\tprint the version\n");
    return EXIT_DONE;
}

/* Every verb and its flags as JSON; for scripts/make_man.py and the tests. */
static int describe(void) {
    json_t *all = json_array();
    for (size_t i = 0; i < TT_COUNT(verbs); i++)
        json_array_append_new(all, tt_flags_describe(verbs[i]));
    tt_outcome_print_json(all);
    return EXIT_DONE;
}

static int run(const struct tt_verb *verb, int argc, char **argv) {
    void *options = tt_allocate(1, verb->options_bytes);
    int code = tt_flags_parse(verb, argc, argv, options);
    if (code < 0)
        code = verb->run(options);
    free(options);
    return code;
}

static int refuse_verb(const char *name) {
    const char *names[TT_COUNT(verbs)];
    for (size_t i = 0; i < TT_COUNT(verbs); i++)
        names[i] = verbs[i]->name;
    const char *near = tt_textproto_nearest(name, names, TT_COUNT(verbs));
    fprintf(stderr, "tutti: unknown verb '%s'%s%s%s; tutti --help lists the verbs\n", name,
            near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    return EXIT_USAGE;
}

int main(int argc, char **argv) {
    /* Set while there is one thread: ONNX Runtime must not report home, and neither a closed
     * socket nor a file size limit may end the process; write() returns the error. */
    setenv("ORT_DISABLE_TELEMETRY", "1", 1);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    const struct tt_verb *verb = find(name);
    if (verb)
        return run(verb, argc - 1, argv + 1);
    if (strcmp(name, "--version") == 0)
        printf("tutti %s\n", TUTTI_VERSION);
    else if (strcmp(name, "--help") == 0 || strcmp(name, "help") == 0)
        print_help(stdout);
    else if (strcmp(name, "--complete") == 0)
        return complete(argc - 2, argv + 2);
    else if (strcmp(name, "--describe") == 0)
        return describe();
    else
        return refuse_verb(name);
    return EXIT_DONE;
}
