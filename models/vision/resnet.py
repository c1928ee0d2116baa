"""ResNet, also wide and grouped: He et al., arXiv 1512.03385, with torchvision's names."""

from __future__ import annotations

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn


def downsample(n_in: int, n_out: int, stride: int) -> nn.Module | None:
    """The layer that gives the residual connection the shape of the result; None if it has it."""
    if stride == 1 and n_in == n_out:
        return None
    return nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))


class Basic(nn.Module):
    """Two 3x3 convolutions: ResNet 18 and 34."""

    expansion = 1

    def __init__(self, n_in: int, width: int, stride: int, groups: int, base_width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = downsample(n_in, width, stride)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions: ResNet 50 and larger."""

    expansion = 4

    def __init__(self, n_in: int, width: int, stride: int, groups: int, base_width: int) -> None:
        super().__init__()
        inner, n_out = width * base_width // 64 * groups, 4 * width
        self.conv1, self.bn1 = nn.Conv2d(n_in, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, n_out, 1, bias=False), nn.BatchNorm2d(n_out)
        self.downsample = downsample(n_in, n_out, stride)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn3(self.conv3(F.relu(self.bn2(self.conv2(out)))))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Images (n, 3, h, w) to the logits of their classes (n, classes).

    Args:
        block: Basic or Bottleneck.
        depths: blocks of each stage.
        classes: number of classes.
        width: channels of the first stage.
        groups: of the 3x3 convolutions of a Bottleneck.
        base_width: channels of a group in the first stage.
    """

    def __init__(self, block: type[Basic] | type[Bottleneck], depths: tuple[int, int, int, int],
                 classes: int = 1000, width: int = 64, groups: int = 1,
                 base_width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        n_in = width
        for stage, depth in enumerate(depths):
            blocks = []
            for i in range(depth):
                stride = 2 if stage > 0 and i == 0 else 1
                blocks.append(block(n_in, width << stage, stride, groups, base_width))
                n_in = block.expansion * (width << stage)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(n_in, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, images: fw.Tensor) -> fw.Tensor:
        """The result of the last stage: (n, channels, h / 32, w / 32)."""
        x = self.maxpool(F.relu(self.bn1(self.conv1(images))))
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        return self.fc(self.features(images).mean(axis=(2, 3)))


def resnet18(classes: int = 1000) -> ResNet:
    """ResNet with 18 layers."""
    return ResNet(Basic, (2, 2, 2, 2), classes)


def resnet34(classes: int = 1000) -> ResNet:
    """ResNet with 34 layers."""
    return ResNet(Basic, (3, 4, 6, 3), classes)


def resnet50(classes: int = 1000) -> ResNet:
    """ResNet with 50 layers."""
    return ResNet(Bottleneck, (3, 4, 6, 3), classes)


def resnet101(classes: int = 1000) -> ResNet:
    """ResNet with 101 layers."""
    return ResNet(Bottleneck, (3, 4, 23, 3), classes)


def resnet152(classes: int = 1000) -> ResNet:
    """ResNet with 152 layers."""
    return ResNet(Bottleneck, (3, 8, 36, 3), classes)


def resnext50_32x4d(classes: int = 1000) -> ResNet:
    """ResNeXt with 50 layers and 32 groups: Xie et al., arXiv 1611.05431."""
    return ResNet(Bottleneck, (3, 4, 6, 3), classes, groups=32, base_width=4)


def wide_resnet50_2(classes: int = 1000) -> ResNet:
    """ResNet with 50 layers of twice the width: Zagoruyko and Komodakis, arXiv 1605.07146."""
    return ResNet(Bottleneck, (3, 4, 6, 3), classes, base_width=128)
