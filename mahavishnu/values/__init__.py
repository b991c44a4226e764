"""Values: arguments and payloads as JSON and back, masked or encrypted where rules say so."""
