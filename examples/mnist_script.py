"""MC dropout on MNIST: a small CNN, the way one usually writes it."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self, p=0.25):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 5, padding=2)
        self.conv2 = nn.Conv2d(8, 16, 5, padding=2)
        self.drop1 = nn.Dropout2d(p)
        self.fc1 = nn.Linear(16 * 7 * 7, 64)
        self.drop2 = nn.Dropout(p)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.drop1(x)
        x = x.flatten(1)
        x = self.drop2(F.relu(self.fc1(x)))
        return self.fc2(x)


def train(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.4f}")


@torch.no_grad()
def predict(model, loader, samples=20):
    model.eval()
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout2d)):
            module.train()  # MC dropout: keep dropping at prediction
    draws = []
    for _ in range(samples):
        draws.append(torch.cat([F.softmax(model(x), dim=1) for x, _ in loader]))
    return torch.stack(draws)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    from torchvision import datasets, transforms

    data = [
        datasets.MNIST("data", train=flag, download=True, transform=transforms.ToTensor()) for flag in (True, False)
    ]
    train_loader = DataLoader(data[0], batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(data[1], batch_size=1000)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    train(model, train_loader, optimizer, args.epochs)

    probs = predict(model, test_loader)
    labels = torch.cat([y for _, y in test_loader])
    accuracy = (probs.mean(0).argmax(1) == labels).float().mean()
    print(f"test accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
