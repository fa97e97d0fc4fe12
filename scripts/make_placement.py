#!/usr/bin/env python3
"""Writes a placement problem as in the evaluation of appendix A of the Symphony paper: variants of common models with
rates from an exponential distribution.

    make_placement.py --models 800 --sub-clusters 20 --seed 1 [--move 0.01] --out FILE

Sizes are those of the models' weights in 32 bits, within 10 %; a run needs half to two and a half times that and 50 MiB.
Limits: a rate of 1.25 times the mean, memory of 1.15 times the mean and the largest run. With --move, that share of
the models may move away from a previous placement, and rates may be 1.6 times the mean. Problems that differ in --seed
alone have the same models. Only the standard library is needed; equal arguments give equal files everywhere.
"""
import argparse
import math
import pathlib
import random

# Millions of parameters.
MODELS = {
    "mobilenet_v3_small": 2.5, "mobilenet_v2": 3.5, "mobilenet_v1": 4.2, "nasnet_mobile": 5.3, "efficientnet_b0": 5.3,
    "mobilenet_v3_large": 5.5, "efficientnet_b1": 7.8, "densenet121": 8.0, "efficientnet_b2": 9.1,
    "efficientnet_b3": 12.2, "densenet169": 14.2, "efficientnet_b4": 19.3, "densenet201": 20.0, "xception": 22.9,
    "inception_v3": 23.9, "resnet50": 25.6, "efficientnet_b5": 30.4, "inception_v4": 42.7, "efficientnet_b6": 43.0,
    "resnet101": 44.5, "inception_resnet_v2": 55.9, "resnet152": 60.2, "efficientnet_b7": 66.3, "nasnet_large": 88.9,
    "bert_base": 110.0, "vgg16": 138.4, "vgg19": 143.7,
}
MIB = 1048576


def make_models(arguments):
    """(name, static MiB, dynamic MiB): they depend on --size-seed alone."""
    draw = random.Random(f"sizes {arguments.size_seed}")
    models = []
    for index in range(arguments.models):
        name = draw.choice(sorted(MODELS))
        static = MODELS[name] * 4e6 / MIB * draw.uniform(0.9, 1.1)
        models.append((f"{name}-{index:05d}", static, static * draw.uniform(0.5, 2.5) + 50))
    return models


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=800)
    parser.add_argument("--sub-clusters", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the rates")
    parser.add_argument("--size-seed", type=int, default=1, help="of the models and their sizes")
    parser.add_argument("--move", type=float, help="the share of the models that may move")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    models = make_models(arguments)
    draw = random.Random(f"rates {arguments.seed}")
    # Logarithms differ in their last digit between libraries; six digits do not.
    rates = [round(-100 * math.log(1 - draw.random()), 6) for _ in models]
    mean_rate = sum(rates) / arguments.sub_clusters
    mean_memory = sum(model[1] for model in models) / arguments.sub_clusters
    memory = 1.15 * mean_memory + max(model[2] for model in models)
    share = 1.25 if arguments.move is None else 1.6  # rates that changed need room until models may move
    lines = [
        f"# {arguments.models} models, {arguments.sub_clusters} sub-clusters; made by scripts/make_placement.py.",
        f"sub_clusters: {arguments.sub_clusters}",
        f"max_rate_per_s: {share * mean_rate:.3f}",
        f"max_memory_mib: {memory:.3f}",
        f"seed: {arguments.seed}",
    ]
    if arguments.move is not None:
        lines.append(f"max_cost: {2 * round(arguments.move * arguments.models)}  # a move is an unload and a load")
    for (name, static, dynamic), rate in zip(models, rates):
        lines.append(f'model {{ name: "{name}" rate_per_s: {rate:.6f} static_mib: {static:.3f} '
                     f"dynamic_mib: {dynamic:.3f} }}")
    arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
